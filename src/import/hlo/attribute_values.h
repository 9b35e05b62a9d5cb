#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "import/hlo/hlo_module.h"
#include "import/hlo/text_scanner.h"

namespace weft::hlo {

// Values of attributes, read out of their text. `text` is the module's, for positions in errors,
// which are Refusals (kInvalidInput).

/// {1,0}, or a single number.
std::vector<int64_t> parse_ints(TextScanner value);

/// 1e-05
double parse_number(TextScanner value);

/// {a, %b}, or a single name.
std::vector<std::string_view> parse_names(TextScanner value);

/// Per axis of a slice={[0:8], [2:10:2]}.
struct SliceRange {
  int64_t start = 0, limit = 0, step = 1;
};
std::vector<SliceRange> parse_slice_ranges(TextScanner value);

/// Per axis of a padding=0_0x64_128_1: amounts before, after and between the elements.
struct PaddingAmount {
  int64_t low = 0, high = 0, interior = 0;
};
std::vector<PaddingAmount> parse_padding(TextScanner value);

/// window={size=3x3 stride=2x2 pad=1_1x0_2 lhs_dilate=1x1 rhs_dilate=2x1 rhs_reversal=0x1}: one
/// entry per axis.
struct WindowValue {
  std::vector<int64_t> size, stride, lhs_dilation, rhs_dilation, reversal;
  std::vector<PaddingAmount> padding;
};
WindowValue parse_window(TextScanner value);

/// dim_labels=b01f_01io->b01f: which axis is what. For input and output batch and feature, for the
/// kernel output feature and input feature; then the spatial axes in their order.
struct AxisLabels {
  int64_t first = 0, second = 0;
  std::vector<int64_t> spatial;
};
struct ConvolutionLabels {
  AxisLabels input, kernel, output;
};
ConvolutionLabels parse_dim_labels(TextScanner value);

}  // namespace weft::hlo
