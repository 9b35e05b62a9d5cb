#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Horizontal merging (Souffle §5.1): contractions that read the same tensor through the same map
/// with constant right operands of equal contracted extents become one with the constants
/// concatenated; their consumers read slices of it.
bool merge_products(TensorProgram& program);

}  // namespace weft
