#pragma once

#include <map>
#include <utility>
#include <vector>

#include "expr/new_tensors.h"
#include "expr/tensor_program.h"

namespace weft {

/// The variables of `e` by which `index` counts through all of `extent`, most significant first:
/// d0 * 64 + d1 through 12 * 64 by d0 and d1. Empty where it does not count so.
std::vector<int> digits_of(const TensorExpr& e, const IndexExpr& index, int64_t extent);

/// Constants with an axis for each variable of the expression that walks them.
class ConstantAxes {
 public:
  ConstantAxes(TensorProgram& program, NewTensors& new_tensors)
      : program_(program), new_tensors_(new_tensors) {}

  /// Of a read of `e`: w[d0 * 64 + d1, d2] becomes w_axes[d0, d1, d2]. The read itself where it is
  /// of no constant, or each axis has a variable of its own.
  ScalarRef given(const TensorExpr& e, const ScalarRef& read);

 private:
  TensorProgram& program_;
  NewTensors& new_tensors_;
  std::map<std::pair<TensorId, Shape>, TensorId> made_;
};

}  // namespace weft
