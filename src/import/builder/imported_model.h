#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "import/builder/imported_input.h"

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

/// A model as a graph. What only ONNX says is 0 or empty for other formats.
struct ImportedModel {
  Graph graph;
  std::vector<ImportedInput> inputs;
  int64_t node_count = 0;  ///< nodes of the main graph, instructions of the entry computation
  int64_t opset = 0;       ///< of ai.onnx
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, std::string> metadata;
  /// The model's own file first (not of a model in memory), then those of its external data.
  std::vector<ModelFile> files;
};

}  // namespace weft
