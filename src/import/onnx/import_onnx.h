#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "import/builder/imported_model.h"
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

/// Names of the inputs that a caller gives, in the model's order, without importing it.
/// kUnsupported when an input or output is not a tensor of a known type.
Result<std::vector<std::string>> onnx_input_names(const std::string& path);

}  // namespace weft
