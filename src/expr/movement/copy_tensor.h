#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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

/// By tensor: whether its type is the model's. Others are intermediates that expressions alone read
/// and make.
std::vector<bool> have_types_of_model(const TensorProgram& program);

/// Lets contractions read copies of the tensors that `copied` names of each, which stand before the
/// first of them. Their names end in `suffix`; they are of `type`, or of the tensor's own.
void read_copies(TensorProgram& program, const std::string& suffix, std::optional<DType> type,
                 const std::function<std::vector<TensorId>(const TensorExpr&)>& copied);

/// The axes from the outermost in memory to the innermost, each where its innermost part lies.
std::vector<int64_t> axes_in_memory(const Tensor& tensor);
/// Adds a copy whose axes lie in this order; its name is the tensor's and `suffix`.
TensorId add_copy_in_order(TensorProgram& program, NewTensors& new_tensors, TensorId from,
                           const std::string& suffix, const std::vector<int64_t>& order);

}  // namespace weft
