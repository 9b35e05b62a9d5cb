#pragma once

#include "support/tensor.h"

namespace weft::onnx {

/// Weights in fewer bits, what each is worth, and how far they are off: the root of the mean square
/// error relative to that of the weights.
struct QuantizedWeights {
  HostTensor values, scales;
  double error = 0;
};

/// int8 of the weights' shape, w = value * scale, with a scale for each slice of `axis`; the values
/// are at most 127 in size.
QuantizedWeights quantize_per_channel(const HostTensor& weights, int64_t axis);

/// MatMulNBits' form of weights [depth, columns] (`across`: [columns, depth]) in 4 bits: bytes
/// [columns, blocks, 16] that hold two neighbours along the sum each, the first one lowest, and
/// scales [columns, blocks], w = (value - 8) * scale.
QuantizedWeights quantize_in_blocks(const HostTensor& weights, bool across);
inline constexpr int64_t kBlock = 32;

}  // namespace weft::onnx
