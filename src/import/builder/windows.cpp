#include "import/builder/windows.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::onnx {

void pad_to_same(Windows& w, bool extra_at_end) {
  for (size_t i = 0; i < w.rank(); ++i) {
    int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    w.out[i] = (w.extent[i] + w.strides[i] - 1) / w.strides[i];
    int64_t total = std::max<int64_t>(0, (w.out[i] - 1) * w.strides[i] + reach - w.extent[i]);
    w.low[i] = extra_at_end ? total / 2 : total - total / 2;
    w.high[i] = total - w.low[i];
  }
}

void count_positions(Windows& w, bool ceil_mode) {
  for (size_t i = 0; i < w.rank(); ++i) {
    int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    int64_t room = w.extent[i] + w.low[i] + w.high[i] - reach;
    if (room < 0) {
      refuse_invalid(fmt::format("a window of {} does not fit {} elements padded by {} and {}",
                                 reach, w.extent[i], w.low[i], w.high[i]));
    }
    w.out[i] = room / w.strides[i] + 1;
    if (!ceil_mode || room % w.strides[i] == 0) continue;
    // One more window, unless it would start in the padding at the end.
    if (w.out[i] * w.strides[i] >= w.extent[i] + w.low[i]) continue;
    w.overhang[i] = w.out[i] * w.strides[i] - room;
    ++w.out[i];
  }
}

}  // namespace weft::onnx
