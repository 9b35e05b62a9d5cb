#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/mapped_file.h"
#include "support/result.h"

namespace weft::onnx {

/// Lowest and highest value of a tensor that was observed.
struct ValueRange {
  float low = 0, high = 0;
};

struct QuantizeOptions {
  /// Of weights: 8, with a scale for each output channel, or 4, with one for each 32 along the sum.
  int bits = 8;
  std::set<std::string> exclude;  ///< names of nodes that stay as they are
  /// Of what layers read and make, by name. Where one is here, it is quantised to 8 bits as well.
  std::map<std::string, ValueRange> ranges;
};

/// A product or convolution whose weights were quantised.
struct QuantizedLayer {
  std::string node, op_type;
  std::string input, output;  ///< names of values
  int bits = 8;
  double weight_error = 0;  ///< root mean square, relative to the weights'
  int64_t bytes_before = 0, bytes_after = 0;
};

struct QuantizedModel {
  std::string bytes;  ///< a ModelProto that holds all of its tensors
  std::vector<QuantizedLayer> layers;
};

/// The model with the constant weights of MatMul, Gemm and Conv in fewer bits:
///     y = MatMul(x, w)   ->   w = DequantizeLinear(w_quantized, w_scale), y = MatMul(x, w)
///     with 4 bits        ->   y = MatMulNBits(x, w_quantized, w_scale), as onnxruntime has it
/// Convolutions, and products that MatMulNBits does not compute, have 8 bits either way. Weights in
/// float32 with another reader, and such as hold no finite numbers, stay.
/// kInvalidInput where the model has no layer to quantise, or no node of an excluded name.
Result<QuantizedModel> quantize_model(const MappedFile& model, const std::string& folder,
                                      const QuantizeOptions& options);

}  // namespace weft::onnx
