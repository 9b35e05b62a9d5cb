#include "import/builder/finish_import.h"

#include <limits>

#include "import/builder/infer_input_ranges.h"
#include "import/builder/prune_graph.h"

namespace weft::onnx {
namespace {

ImportedInput seed_input(const Graph& graph) {
  ImportedInput seed;
  const ValueId v = graph.inputs.back();
  seed.name = graph.values[static_cast<size_t>(v)].name;
  seed.type = graph.type(v);
  seed.graph_input = static_cast<int64_t>(graph.inputs.size()) - 1;
  seed.range = Interval{0, std::numeric_limits<int64_t>::max()};
  seed.drawn = true;
  return seed;
}

}  // namespace

void finish_import(const GraphBuilder& builder, ImportedModel& model) {
  model.graph = prune_graph(builder.graph(), builder.value_names());
  infer_input_ranges(model.graph, model.inputs);
  if (builder.known_seed() != kNoValue) model.inputs.push_back(seed_input(model.graph));
}

}  // namespace weft::onnx
