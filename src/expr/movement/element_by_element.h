#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Whether a read of a tensor of `shape` goes along axes of the reader in their order, or none
/// where there is one element: groups hold such reads.
bool is_element_by_element(const TensorExpr& reader, const Scalar& read, const Shape& shape);

}  // namespace weft
