#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "import/builder/imported_model.h"
#include "support/mapped_file.h"
#include "support/result.h"

namespace weft {

/// Reads an ONNX model (opset 7 and later) into primitives, all shapes concrete. The graph's large
/// constants are views of the mapped file, which they keep alive.
///
/// kInvalidInput: the file cannot be read or breaks ONNX's rules, an option does not fit, or
/// symbolic dimensions stay unbound (one error lists them all). kUnsupported: one error lists every
/// node that is not supported, with its operator, domain and reason.
Result<ImportedModel> import_onnx(const std::string& path, const ImportOptions& options = {});

/// The same for a model in memory. `folder` is where its external data may lie; empty: it may have
/// none.
Result<ImportedModel> import_onnx(std::span<const std::byte> model,
                                  std::shared_ptr<const void> owner, const std::string& folder,
                                  const ImportOptions& options = {});

/// An input or output as the model declares it.
struct DeclaredTensor {
  struct Dim {
    int64_t extent = -1;  ///< -1: left to the caller
    std::string symbol;   ///< its name then, empty where it has none
  };
  std::string name;
  DType dtype = DType::kF32;
  std::optional<std::vector<Dim>> dims;  ///< nullopt: the rank is open, too
};
/// The inputs that a caller gives, and the outputs, in the model's order.
struct OnnxSignature {
  std::vector<DeclaredTensor> inputs, outputs;
};

/// What the model declares, without importing it. kInvalidInput: it is no ONNX model. kUnsupported:
/// an input or output is not a tensor of a known type.
Result<OnnxSignature> onnx_signature(const std::string& path);
Result<OnnxSignature> onnx_signature(MappedFile model);

}  // namespace weft
