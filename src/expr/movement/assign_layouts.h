#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Chooses the physical order of intermediates: tensors that convolutions produce or read, and
/// those that pointwise expressions, windows, 1x1 convolutions and pieces of channels connect with
/// them, lie channels-last (axis 1 innermost) where convolutions, and readers that turn images into
/// tokens, outweigh, by elements touched, the readers that want the last axis innermost (matrix
/// products, reductions over the last axis). So do products with a constant that make channels of
/// tokens. Axis 1 may have been taken apart: the axes that it became lie innermost then, in their
/// order, but where a product takes a matrix of each. Everything else stays row-major. So do inputs
/// and outputs, but with `twins` those that such expressions follow get one in their order: a copy
/// of the input, or what the output is a copy of. A convolution alone between both has copies where
/// it multiplies each element often.
///     conv -> relu -> conv over [N,C,H,W]: both intermediates lie as {0,1,N}{2,1,H}{3,1,W}{1,1,C}
bool assign_layouts(TensorProgram& program, bool twins);

}  // namespace weft
