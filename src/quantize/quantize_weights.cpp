#include "quantize/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::onnx {
namespace {

/// Sums of squares of weights and of their errors.
struct Errors {
  double weights = 0, errors = 0;

  void add(float weight, float value) {
    weights += static_cast<double>(weight) * weight;
    errors += static_cast<double>(weight - value) * (weight - value);
  }
  double relative() const { return weights > 0 ? std::sqrt(errors / weights) : 0; }
};

}  // namespace

QuantizedWeights quantize_per_channel(const HostTensor& weights, int64_t axis) {
  constexpr float kMost = 127;
  const Shape& shape = weights.shape();
  const int64_t channels = shape[static_cast<size_t>(axis)];
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(axis) + 1; d < shape.size(); ++d) inner *= shape[d];
  const auto* w = weights.data<float>();
  const auto channel_of = [&](int64_t i) { return i / inner % channels; };

  QuantizedWeights out{HostTensor(DType::kI8, shape), HostTensor(DType::kF32, {channels}), 0};
  auto* scales = out.scales.mutable_data<float>();
  std::fill_n(scales, channels, 0.0F);
  for (int64_t i = 0; i < weights.size(); ++i)
    scales[channel_of(i)] = std::max(scales[channel_of(i)], std::abs(w[i]));
  for (int64_t c = 0; c < channels; ++c) {
    scales[c] /= kMost;
    if (scales[c] < std::numeric_limits<float>::min()) scales[c] = 1;  // of zeros, or nearly so
  }
  Errors errors;
  auto* values = out.values.mutable_data<int8_t>();
  for (int64_t i = 0; i < weights.size(); ++i) {
    const float scale = scales[channel_of(i)];
    const float value = std::clamp(std::nearbyint(w[i] / scale), -kMost, kMost);
    values[i] = static_cast<int8_t>(value);
    errors.add(w[i], value * scale);
  }
  out.error = errors.relative();
  return out;
}

QuantizedWeights quantize_in_blocks(const HostTensor& weights, bool across) {
  constexpr float kZero = 8;
  const int64_t depth = weights.shape()[across ? 1 : 0], columns = weights.shape()[across ? 0 : 1];
  const int64_t blocks = (depth + kBlock - 1) / kBlock;
  const auto* w = weights.data<float>();
  const auto weight = [&](int64_t k, int64_t n) {
    if (k >= depth) return 0.0F;
    return across ? w[n * depth + k] : w[k * columns + n];
  };
  QuantizedWeights out{HostTensor(DType::kU8, {columns, blocks, kBlock / 2}),
                       HostTensor(DType::kF32, {columns, blocks}), 0};
  auto* values = out.values.mutable_data<uint8_t>();
  auto* scales = out.scales.mutable_data<float>();
  Errors errors;
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t b = 0; b < blocks; ++b) {
      // The largest in size becomes -8: one of the other sign may be cut to 7.
      float largest = 0;
      for (int64_t k = b * kBlock; k < (b + 1) * kBlock; ++k) {
        if (std::abs(weight(k, n)) > std::abs(largest)) largest = weight(k, n);
      }
      float scale = largest / -kZero;
      if (std::abs(scale) < std::numeric_limits<float>::min()) scale = 1;
      scales[n * blocks + b] = scale;
      for (int64_t k = 0; k < kBlock; ++k) {
        const float exact = weight(b * kBlock + k, n);
        const float value = std::clamp(std::nearbyint(exact / scale) + kZero, 0.0F, 15.0F);
        uint8_t& byte = values[(n * blocks + b) * kBlock / 2 + k / 2];
        const auto bits = static_cast<uint8_t>(value);
        byte = k % 2 == 0 ? bits : static_cast<uint8_t>(byte | bits << 4);
        errors.add(exact, (value - kZero) * scale);
      }
    }
  }
  out.error = errors.relative();
  return out;
}

}  // namespace weft::onnx
