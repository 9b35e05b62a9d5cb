#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assemble/lay_out_constants.h"
#include "expr/tensor_program.h"

namespace weft {

/// The constants of a program as kernels read them, each form once.
class ConstantTable {
 public:
  struct Entry {
    size_t number = 0;  ///< of the constant in the program
    Shape shape;        ///< of its elements as they lie in memory
    int64_t bytes = 0;
  };
  /// A constant's elements as `type`, in `layout`, which orders the axes of `shape`. That holds the
  /// tensor's elements in the same order: a kernel may walk several axes of the model as one.
  const Entry& add(const Tensor& tensor, DType type, const Layout& layout, const Shape& shape);

  struct Constants {
    std::vector<HostTensor> values;
    /// By constant: its key in the cache folder, when it is a view of a file there.
    std::vector<std::optional<Hash128>> keys;
  };
  /// All of them, laid out; the table is spent.
  Constants take(const LayoutOptions& options);

 private:
  std::map<std::pair<const std::byte*, std::string>, Entry> known_;
  std::vector<HostTensor> values_;
  std::vector<LayoutJob> jobs_;
  std::vector<size_t> made_;  ///< by job: the constant that it makes
};

}  // namespace weft
