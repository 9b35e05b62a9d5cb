#include "expr/products/filtered_weights.h"

#include <algorithm>
#include <span>
#include <utility>

#include "support/float32_tensor.h"

namespace weft {
namespace {

/// Windows side by side, whose taps are vectors.
constexpr int64_t kSideBySide = 16;
using Lanes = double[kSideBySide];

/// Of the points 0, 1, -1 and infinity: what the taps are of three places, for all windows.
void combine(const Lanes (&places)[kWindowPlaces], Lanes (&taps)[kTaps]) {
  for (int64_t i = 0; i < kSideBySide; ++i) {
    const double ends = places[0][i] + places[2][i];
    taps[0][i] = places[0][i];
    taps[1][i] = 0.5 * (ends + places[1][i]);
    taps[2][i] = 0.5 * (ends - places[1][i]);
    taps[3][i] = places[2][i];
  }
}

/// The windows of one row of the result.
class Row {
 public:
  /// `apart`: elements from a tap to the next.
  Row(std::span<const int64_t> strides, int axes, int64_t apart)
      : strides_(strides), axes_(axes), apart_(apart) {}

  /// So many windows at once, `step` elements from one to the next.
  void transform(const float* from, int64_t step, float* to, int64_t count) const {
    Lanes along[kTaps][kWindowPlaces] = {};  // by tap of the first axis, by place of the second
    for (int64_t s = 0; s < (axes_ > 1 ? kWindowPlaces : 1); ++s) {
      Lanes places[kWindowPlaces] = {}, taps[kTaps];
      for (int64_t r = 0; r < kWindowPlaces; ++r) {
        const float* place = from + r * strides_[0] + (axes_ > 1 ? s * strides_[1] : 0);
        for (int64_t i = 0; i < count; ++i) places[r][i] = place[i * step];
      }
      combine(places, taps);
      for (int64_t t = 0; t < kTaps; ++t) std::ranges::copy(taps[t], along[t][s]);
    }
    for (const auto& of_second : along) {
      Lanes taps[kTaps];
      if (axes_ > 1) combine(of_second, taps);
      for (int64_t t = 0; t < (axes_ > 1 ? kTaps : 1); ++t, to += apart_) {
        const Lanes& tap = axes_ > 1 ? taps[t] : of_second[0];
        for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(tap[i]);
      }
    }
  }

 private:
  std::span<const int64_t> strides_;
  int axes_;
  int64_t apart_;
};

HostTensor transform(const HostTensor& weights, const std::vector<int64_t>& strides,
                     const Shape& shape, int axes) {
  const auto* from = weights.data<float>();
  HostTensor out(DType::kF32, shape);
  auto* to = out.mutable_data<float>();
  const auto first = static_cast<size_t>(axes);
  const bool single = shape.size() == first;  // one window
  int64_t rows = 1;
  for (size_t d = first; d + 1 < shape.size(); ++d) rows *= shape[d];
  const int64_t length = single ? 1 : shape.back(), step = strides.back();
  const Row row(strides, axes, rows * length);
  for (int64_t n = 0; n < rows; ++n) {
    int64_t at = 0, rest = n;
    for (size_t d = shape.size(); d-- > first + 1;) {
      at += rest % shape[d - 1] * strides[d - 1];
      rest /= shape[d - 1];
    }
    for (int64_t i = 0; i < length; i += kSideBySide) {
      row.transform(from + at + i * step, step, to + n * length + i,
                    std::min(kSideBySide, length - i));
    }
  }
  return out;
}

}  // namespace

HostTensor FilteredWeights::of(const HostTensor& weights, const std::vector<int64_t>& strides,
                               const Shape& shape, int axes) {
  auto [known, is_new] = made_.try_emplace(Key{weights.raw(), strides, shape});
  if (is_new) known->second = {weights, transform(float32_tensor(weights), strides, shape, axes)};
  return known->second.value;
}

}  // namespace weft
