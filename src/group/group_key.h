#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "group/group.h"
#include "support/hash.h"

namespace weft {

/// What is equal for groups that differ in the names and numbers of tensors alone, as the twelve
/// layers of a model do: shapes, types, layouts, open axes, bodies, which tensors leave and which
/// inputs are constants count. Legality, choices and predictions hold for all groups of a key and
/// a target.
struct GroupKey {
  Hash128 hash;
  std::vector<TensorId> tensors;  ///< of the program, by their number in the group
  size_t number_of(TensorId tensor) const;
};

/// Keys of groups of one program. What an expression adds to them is derived once.
class GroupKeys {
 public:
  explicit GroupKeys(const TensorProgram& program);
  /// Tensors are numbered as they are met: of each expression its output, then what it reads.
  GroupKey of(const Group& group);

 private:
  /// A body with tensors by their number in it, and which those are.
  struct ExprKey {
    Hash128 hash;
    std::vector<TensorId> tensors;
  };
  const ExprKey& of_expr(ExprId e);
  const Hash128& of_tensor(TensorId t);

  const TensorProgram& program_;
  std::vector<std::optional<ExprKey>> exprs_;
  std::vector<std::optional<Hash128>> tensors_;
  std::vector<int32_t> number_of_;  ///< by tensor, in the group that is looked at; -1 elsewhere
  std::vector<uint64_t> values_;    ///< that are hashed
};

/// The name that a tensor has in a space made for all groups of a key.
std::string numbered_name(size_t number);
/// The text with what `name_of` says in the place of each number between two of `mark`.
std::string with_numbers(std::string_view text, char mark,
                         const std::function<std::string_view(size_t)>& name_of);
/// A text of such a space with the names of a program in it.
std::string with_names(std::string_view text, const GroupKey& key, const TensorProgram& program);

}  // namespace weft
