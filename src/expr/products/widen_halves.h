#pragma once

#include <vector>

#include "expr/tensor_program.h"

namespace weft {

inline bool is_half(DType type) { return type == DType::kF16 || type == DType::kBF16; }

/// Makes the tensors that are marked (each of 16-bit floats) float32 ones, and arithmetic on 16-bit
/// floats float32 arithmetic: no operation rounds its result, only what is stored in 16 bits and
/// what the model converts is rounded.
void compute_in_float32(TensorProgram& program, const std::vector<bool>& widened);

/// For processors that multiply float32 only: intermediates of 16-bit floats that contractions
/// read become float32. A contraction reads each of them many times and would convert it each time,
/// which takes longer than the bytes do. What has to be there in 16 bits, as inputs, outputs and
/// what loops carry, gets a copy in float32 where contractions read its elements often.
/// `multiplies_bfloat16`: but for those that the processor multiplies in pairs
/// (expr/products/bfloat_products.h). Returns whether there are any.
bool widen_operands(TensorProgram& program, bool multiplies_bfloat16);

}  // namespace weft
