#pragma once

#include <functional>
#include <map>
#include <memory>
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
  /// One making of the graph, or of a region inside `parent`.
  struct Replay {
    onnx::GraphBuilder& builder;
    const std::map<std::string, int64_t>& bound;  ///< the open dimensions
    Replay* parent = nullptr;
    std::map<int32_t, ValueId> values = {};  ///< by the numbers that record() gave
    /// Captures what a region reads of the graph around it. Refuses a number that record() did not
    /// give, and one of a region that this is no part of.
    ValueId at(int32_t number);
  };
  /// Makes nodes and returns their results. May throw onnx::Refusal.
  using Step = std::function<std::vector<ValueId>(Replay&)>;

  /// `dims` present. The number of the tensor.
  int32_t add_input(DeclaredTensor input);
  /// `what` is made by `step`, which has as many results, numbered from the one returned.
  int32_t record(std::string what, int32_t results, Step step);
  void begin_origin(Origin origin);

  /// The steps of a loop's body or of a branch.
  struct Region;
  /// What is recorded from now on belongs to a region, up to end_region().
  void begin_region();
  /// Inputs, which the loop gives values; at the beginning of the region.
  int32_t add_region_input();
  std::shared_ptr<const Region> end_region(std::vector<int32_t> results);
  /// Makes the region by a builder inside that of `around`: `inputs` of these types.
  static void replay_region(const Region& region, const std::vector<TensorType>& inputs,
                            Replay& around, onnx::GraphBuilder& builder);
  void add_output(int32_t number, std::string name);

  const std::vector<DeclaredTensor>& inputs() const { return inputs_; }
  bool has_open_dimensions() const;

  /// The graph for the shapes in the options. As of import_onnx, whose options these are.
  Result<ImportedModel> build(const ImportOptions& options) const;

 private:
  struct Recorded {
    std::string what, origin;
    int32_t first = 0;  ///< number of its first result
    Step step;
  };
  static void run_steps(const std::vector<Recorded>& steps, Replay& replay);
  struct NamedOutput {
    int32_t number;
    std::string name;
  };
  ImportedModel replay(const ImportOptions& options) const;

  std::vector<DeclaredTensor> inputs_;
  std::vector<Recorded>& steps();

  std::vector<Recorded> steps_;
  std::vector<std::shared_ptr<Region>> regions_;  ///< that are recorded, the innermost last
  std::vector<NamedOutput> outputs_;
  int32_t count_ = 0;
};

struct RecordedGraph::Region {
  std::vector<int32_t> inputs, results;
  std::vector<Recorded> steps;
};

}  // namespace weft
