#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

// Activations of x in its own type, which the caller widens. Where the definition chooses by a
// comparison, so does the graph: a NaN then takes the side that it takes there.

/// log(1 + exp(x)), without overflow for large x and without losing small results.
ValueId softplus(GraphBuilder& b, ValueId x);
/// x > 0 ? x : alpha * (exp(x) - 1)
ValueId elu(GraphBuilder& b, ValueId x, double alpha);
/// max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0); alpha is not 0.
ValueId celu(GraphBuilder& b, ValueId x, double alpha);
/// x < 0 ? alpha * x : x
ValueId leaky_relu(GraphBuilder& b, ValueId x, double alpha);
/// x > alpha ? x : 0
ValueId thresholded_relu(GraphBuilder& b, ValueId x, double alpha);
/// x / (|x| + 1)
ValueId softsign(GraphBuilder& b, ValueId x);
/// x * tanh(softplus(x))
ValueId mish(GraphBuilder& b, ValueId x);
/// x / 2 * (1 + erf(x / sqrt(2)))
ValueId gelu(GraphBuilder& b, ValueId x);
/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
ValueId tanh_gelu(GraphBuilder& b, ValueId x);
/// clamp(alpha * x + beta, 0, 1)
ValueId hard_sigmoid(GraphBuilder& b, ValueId x, double alpha, double beta);
/// x * sigmoid(alpha * x)
ValueId swish(GraphBuilder& b, ValueId x, double alpha);

}  // namespace weft::onnx
