#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "import/onnx/model.h"
#include "import/onnx/translator.h"

namespace weft::onnx {

/// How often a Loop runs whose first condition is true: what decides its end, a counter as a rule,
/// begins with constants and depends on nothing else, as in the loops over time that TensorFlow
/// exports. `most`: iterations that the node allows; none: any number.
///
/// Only the nodes of the body that the condition needs are imported, once for each iteration.
/// Nothing where the end depends on data, the condition needs much or holds too long.
std::optional<int64_t> count_iterations(OpContext& n, const GraphDef& body,
                                        const std::vector<ValueId>& carries,
                                        std::optional<int64_t> most);

}  // namespace weft::onnx
