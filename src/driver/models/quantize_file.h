#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "driver/models/prepare_model.h"
#include "quantize/quantize_model.h"

namespace weft {

struct QuantizeRequest {
  ModelRequest model;  ///< an ONNX file, and what it is compared with the result on
  int bits = 8;
  std::set<std::string> exclude;
  /// Inputs that say which values the layers read and make; empty: these stay in float32.
  std::vector<std::map<std::string, HostTensor>> calibration;
};

/// A layer, and how far what it makes is from the original model's: the root of the mean square
/// error relative to the values', which holds the errors of the layers before it.
struct LayerError {
  onnx::QuantizedLayer layer;
  double output_error = 0;
};

struct QuantizedFile {
  std::string bytes;
  std::vector<LayerError> layers;
};

/// Quantises a model file (quantize/quantize_model.h) and runs the result beside the original, on
/// the first calibration inputs, else on those of the request.
Result<QuantizedFile> quantize_file(const QuantizeRequest& request);

}  // namespace weft
