#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Gives every output of the regions of scans a tensor of its own, which an expression makes: one
/// that is an output twice (what a step carries and stacks, too), an input or a constant is copied
/// by an expression, which shares the maker's kernel.
///     {…h = tanh(a)} -> (h, h)   becomes   {…h = tanh(a); h_1[i] = h[i]} -> (h, h_1)
void separate_outputs(TensorProgram& program);

}  // namespace weft
