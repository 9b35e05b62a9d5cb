#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "import/builder/imported_input.h"
#include "support/result.h"

namespace weft {

/// What the caller knows about the model's inputs. Names that the model does not have are an error.
struct ImportOptions {
  /// Symbolic dimensions: by their name in the model, or "input.axis" ("x.0") where it has none.
  std::map<std::string, int64_t> bind;
  /// Values that inputs will have. They give shapes, and where an operator needs an input as a
  /// constant (a shape, axes, k, pads) the graph is specialised on them.
  std::map<std::string, HostTensor> known_inputs;
  /// Shapes that inputs will have; symbolic dimensions bind from them.
  std::map<std::string, Shape> shapes;
  /// Called with the inputs once their shapes are bound, before any node is read. Which of them the
  /// graph is specialised on is not known then.
  std::function<void(const std::vector<ImportedInput>&)> inputs_bound;
};

/// A file that constants of the graph may be views of; they keep the mapping alive.
struct ModelFile {
  std::string path;
  std::span<const std::byte> bytes;
};

struct ImportedModel {
  Graph graph;
  std::vector<ImportedInput> inputs;
  int64_t node_count = 0;  ///< ONNX nodes of the main graph
  int64_t opset = 0;       ///< of ai.onnx
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, std::string> metadata;
  /// The model's own file first (not of a model in memory), then those of its external data.
  std::vector<ModelFile> files;
};

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
