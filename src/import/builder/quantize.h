#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// clamp(round(y) + zero_point) in `type`; y is float32, zero_point broadcasts or is kNoValue.
ValueId round_to_integer(GraphBuilder& b, ValueId y, ValueId zero_point, DType type);

/// The same in `type` with other bounds.
ValueId round_to_range(GraphBuilder& b, ValueId y, ValueId zero_point, DType type, double lowest,
                       double highest);

/// v as int32 less its zero point (shaped to broadcast), if there is one.
ValueId without_zero_point(GraphBuilder& b, ValueId v, ValueId zero_point);

/// float32 as uint8 with a scale such that [min(x, 0), max(x, 0)] covers all of [0, 255].
struct DynamicQuantization {
  ValueId values, scale, zero_point;  ///< scale and zero point are scalars
};
DynamicQuantization quantize_dynamically(GraphBuilder& b, ValueId x);

}  // namespace weft::onnx
