#pragma once

#include <vector>

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// Where along one axis a tap of an interpolation reads, whether that is inside the image
/// (kNoValue: always), and its weight (kNoValue: 1). All are [N, P] for P points.
struct AxisTap {
  ValueId index = kNoValue, inside = kNoValue, weight = kNoValue;
};

/// The tap at whole-numbered positions, which is outside beyond [0, extent).
AxisTap zero_padded_tap(GraphBuilder& b, ValueId position, ValueId weight, int64_t extent);

/// The two taps of linear interpolation at coordinates x, zeros outside.
std::vector<AxisTap> linear_taps(GraphBuilder& b, ValueId x, int64_t extent);

/// The sum over all choices of one tap per axis of the product of their weights and the element
/// there: from images [N, C, extents...] flattened to [N, C, S], the values [N, C, P].
ValueId sum_of_taps(GraphBuilder& b, ValueId flat, const std::vector<std::vector<AxisTap>>& taps,
                    const Shape& extents);

}  // namespace weft::onnx
