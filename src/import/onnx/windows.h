#pragma once

#include "import/builder/windows.h"
#include "import/onnx/translator.h"

namespace weft::onnx {

/// Reads strides, dilations, pads, auto_pad and ceil_mode. Refuses negative or absurdly large
/// numbers, lists of a wrong length, and windows that do not fit.
///     extent 5, kernel 2, stride 2, ceil_mode 1   ->   out 3, overhang 1
Windows read_windows(OpContext& n, const Shape& extent, std::vector<int64_t> kernel);

/// One attribute with an entry per spatial axis, each within [least, 2^31).
std::vector<int64_t> spatial_attr(OpContext& n, std::string_view name, size_t rank,
                                  int64_t otherwise, int64_t least);

/// Elements of a table that is computed while importing; refuses more than 2^24.
int64_t table_size(const Shape& shape, std::string_view what);

/// The extents after the first two.
Shape spatial_extents(OpContext& n, ValueId x);

/// The mean of each window of an AveragePool's attributes, in x's (floating) type.
ValueId average_pool(OpContext& n, ValueId x);

}  // namespace weft::onnx
