#pragma once

#include "expr/tensor_program.h"
#include "support/tensor.h"

namespace weft {

/// The elements of a tensor that lies in memory in the order of its layout, in their logical order
/// and the shape that the model gives it.
HostTensor in_logical_order(const HostTensor& physical, const Tensor& tensor);

}  // namespace weft
