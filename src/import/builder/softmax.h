#pragma once

#include <vector>

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// exp(x) over its sum along `axes`, less the largest element before that; in x's type, which the
/// caller widens. The logarithm is that without a quotient.
ValueId softmax(GraphBuilder& b, ValueId x, const std::vector<int64_t>& axes);
ValueId log_softmax(GraphBuilder& b, ValueId x, const std::vector<int64_t>& axes);

}  // namespace weft::onnx
