#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/builder/imported_model.h"
#include "support/mapped_file.h"
#include "support/result.h"

namespace weft {

/// What is known of a value of the model between two of its parts.
struct KnownValue {
  TensorType type;
  std::optional<HostTensor> constant;  ///< the same in each run of these shapes
};
using KnownValues = std::map<std::string, KnownValue>;

/// Some of a model's nodes as a graph of their own, whose inputs and outputs have the names that
/// the model's values have.
struct ModelPart {
  Graph graph;
  std::vector<ImportedInput> inputs;  ///< of the graph, in its order
  /// Values of the part that are read outside of it and follow from shapes; the graph has no output
  /// for them.
  std::map<std::string, HostTensor> constants;
  std::vector<size_t> nodes;    ///< that are in it
  std::vector<size_t> waiting;  ///< that need values, which are all there behind it
};

/// An ONNX model some of whose sizes depend on values: how many elements are not zero, which boxes
/// are left over, up to which position something is cut off. Shapes are fixed where a graph is
/// imported, so such a model becomes several: all nodes that can be imported without values are a
/// part; those that wait for values of it are graphs of one node, specialised on them, whose
/// outputs have shapes; then comes what these make possible.
///
///     image -> [ convolutions … boxes, scores ] -> NonMaxSuppression -> [ gather … ] -> detections
///              a part                              a node on values     a part for so many boxes
class ModelParts {
 public:
  /// Errors: those of import_onnx for a file that is no model.
  static Result<std::unique_ptr<ModelParts>> open(MappedFile model, std::string folder);
  ~ModelParts();

  /// Nodes that the outputs need; they are numbered in an order in which each is behind those that
  /// it reads of.
  size_t node_count() const;
  const std::vector<std::string>& outputs() const;
  /// The inputs that a caller gives, with the shapes and extents in `options`.
  Result<std::vector<ImportedInput>> bind(const ImportOptions& options) const;

  /// Of the nodes that are not done those that need no values. `known`: what those that are done
  /// made, and the inputs. kUnsupported where a node cannot be imported for another reason than
  /// values.
  Result<ModelPart> import(const std::vector<bool>& done, const KnownValues& known) const;
  /// One node, specialised on those of the values that it cannot do without: there is one for each
  /// known value that it reads and that is no constant.
  Result<ModelPart> import_node(size_t node, const KnownValues& known,
                                const std::map<std::string, HostTensor>& values) const;
  /// Names that nodes read which are not done, and the model's outputs.
  std::vector<std::string> names_needed(const std::vector<bool>& done) const;
  /// Names that a node reads.
  std::vector<std::string> names_read(size_t node) const;
  /// "NonZero 'found'".
  std::string describe(size_t node) const;

 private:
  struct Impl;
  explicit ModelParts(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
