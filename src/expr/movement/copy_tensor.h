#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "expr/new_tensors.h"
#include "expr/tensor_program.h"

namespace weft {

/// An expression that gives `to` the elements of `from`, which has its shape: to[i] = from[i].
/// Origins and open axes are those of the expression that makes `from`, if one does.
TensorExpr copy_of(const TensorProgram& program, TensorId from, TensorId to);
/// Adds that expression, behind the step that makes `from`; before all others where none does.
void add_copy(TensorProgram& program, TensorId from, TensorId to);

/// The axes from the outermost in memory to the innermost, each where its innermost part lies.
std::vector<int64_t> axes_in_memory(const Tensor& tensor);
/// Adds a copy whose axes lie in this order; its name is the tensor's and `suffix`.
TensorId add_copy_in_order(TensorProgram& program, NewTensors& new_tensors, TensorId from,
                           const std::string& suffix, const std::vector<int64_t>& order);

}  // namespace weft
