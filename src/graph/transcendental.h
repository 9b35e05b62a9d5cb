#pragma once

#include "graph/scalar_op.h"

namespace weft {

/// Whether a CPU computes it by a polynomial of some fifteen instructions: exponentials,
/// logarithms, circular and hyperbolic functions and their inverses, sigmoid, erf and powers; no
/// roots.
bool is_transcendental(ScalarOp op);

}  // namespace weft
