#pragma once

#include <map>
#include <vector>

#include "expr/leaves.h"
#include "group/group.h"
#include "group/group_key.h"

namespace weft {

/// A group cut out of its program: only its expressions and the tensors that they touch, each
/// tensor in its physical order as row-major.
struct GroupView {
  TensorProgram program;
  Group group;                     ///< all expressions of `program`
  std::vector<TensorId> original;  ///< by tensor of `program`
};

/// The leaves of a program's expressions over tensors in their physical order, derived once for all
/// groups that are cut out of it.
class PhysicalLeaves {
 public:
  explicit PhysicalLeaves(const TensorProgram& program);
  const std::vector<Leaf>& of(ExprId e) const { return leaves_[static_cast<size_t>(e)]; }

 private:
  std::vector<std::vector<Leaf>> leaves_;
};

/// A group that is being cut out: what is known before its bodies are written.
struct GroupCut {
  GroupView view;                         ///< with the bodies of the program that it is cut out of
  std::vector<std::vector<Leaf>> leaves;  ///< by expression, of `view`
};

/// What a cut takes beside the group.
struct CutOptions {
  /// Orders that constants are to have, instead of their own: permutations.
  const std::map<TensorId, Layout>* orders = nullptr;
  /// Tensors are called by their numbers in it.
  const GroupKey* key = nullptr;
  /// Of the program.
  const PhysicalLeaves* known = nullptr;
  /// Collapsing also takes axes apart of which contractions read blocks (divide_axes).
  bool divides = false;
  /// But for blocks that fill vectors of so many lanes together: of a power of two, up to so many.
  int64_t block_lanes = 1;
};

/// Axes stay as they are, in the order of memory.
///
/// Requires: layouts of intermediates are permutations. Establishes, when the bodies are written:
/// the same meaning element by element in physical order.
GroupCut begin_cut(const TensorProgram& program, const Group& group, const CutOptions& options);
/// Writes the bodies.
GroupView finished(GroupCut cut);

/// Both.
GroupView cut_group(const TensorProgram& program, const Group& group,
                    const CutOptions& options = {});

}  // namespace weft
