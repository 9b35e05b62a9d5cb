#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "import/builder/graph_builder.h"
#include "import/onnx/import_onnx.h"
#include "support/result.h"

namespace weft {

/// A graph as a list of calls of the graph builder, which are made again for each binding of its
/// open dimensions.
class RecordedGraph {
 public:
  /// One making of the graph.
  struct Replay {
    onnx::GraphBuilder& builder;
    const std::map<std::string, int64_t>& bound;  ///< the open dimensions
    std::vector<ValueId> values;                  ///< by the numbers that record() gave
    ValueId at(int32_t number) const;             ///< refuses a number that record() did not give
  };
  /// Makes nodes and returns their results. May throw onnx::Refusal.
  using Step = std::function<std::vector<ValueId>(Replay&)>;

  /// `dims` present. The number of the tensor.
  int32_t add_input(DeclaredTensor input);
  /// `what` is made by `step`, which has as many results, numbered from the one returned.
  int32_t record(std::string what, int32_t results, Step step);
  void begin_origin(Origin origin);
  void add_output(int32_t number, std::string name);

  const std::vector<DeclaredTensor>& inputs() const { return inputs_; }
  bool has_open_dimensions() const;

  /// The graph for the shapes in the options. As of import_onnx, whose options these are.
  Result<ImportedModel> build(const ImportOptions& options) const;

 private:
  struct Recorded {
    std::string what;
    Step step;
  };
  struct NamedOutput {
    int32_t number;
    std::string name;
  };
  ImportedModel replay(const ImportOptions& options) const;

  std::vector<DeclaredTensor> inputs_;
  std::vector<Recorded> steps_;
  std::vector<NamedOutput> outputs_;
  std::vector<std::string> origins_;
  int32_t count_ = 0;
};

}  // namespace weft
