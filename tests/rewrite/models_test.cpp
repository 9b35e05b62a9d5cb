#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "import/onnx/import_onnx.h"
#include "interp/interpreter.h"
#include "io/npz.h"
#include "rewrite/fold_constants.h"
#include "rewrite/inline_constant_if.h"
#include "rewrite/merge_equal_nodes.h"
#include "rewrite/narrow_regions.h"
#include "rewrite/remove_dead_nodes.h"
#include "rewrite/simplify_graph.h"
#include "rewrite/unroll_scans.h"
#include "tests/graph/random_graph.h"
#include "tests/paths.h"

namespace weft {
namespace {

constexpr int64_t kFoldBytes = 1 << 16;

bool run_all(Graph& graph, bool unroll) {
  bool changed = fold_constants(graph, kFoldBytes);
  changed = inline_constant_if(graph) || changed;
  changed = narrow_regions(graph, 1024) || changed;
  changed = (unroll && unroll_scans(graph, 64)) || changed;
  changed = simplify_graph(graph) || changed;
  changed = merge_equal_nodes(graph) || changed;
  return remove_dead_nodes(graph) || changed;
}

const std::string kModels = std::string(WEFT_SOURCE_DIR) + "/tests/models/";

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Models : public ::testing::TestWithParam<std::string> {};

/// The import of a reduced model with the shapes of its stored inputs, and these in graph order.
struct Model {
  Graph graph;
  std::vector<HostTensor> inputs;
};

Result<Model> load(const std::string& name) {
  WEFT_ASSIGN_OR_RETURN(const auto arrays, load_npz(kModels + name + ".inputs.npz"));
  ImportOptions options;
  for (const auto& [input, value] : arrays) options.shapes[input] = value.shape();
  WEFT_ASSIGN_OR_RETURN(ImportedModel imported, import_onnx(kModels + name + ".onnx", options));
  Model model{std::move(imported.graph), {}};
  for (ValueId v : model.graph.inputs) {
    model.inputs.push_back(arrays.at(model.graph.values[static_cast<size_t>(v)].name));
  }
  return model;
}

TEST_P(Models, RoundTripAndKeepTheirResults) {
  const Result<Model> model = load(GetParam());
  ASSERT_TRUE(model.ok()) << model.error().message;
  const Graph& graph = model->graph;
  const PrintGraphOptions whole{.max_inline_elements = int64_t{1} << 30, .origins = true};
  const std::string text = print(graph, whole);
  const Result<Graph> parsed = parse_graph(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(print(*parsed, whole), text);

  const std::vector<HostTensor> expected = *interpret(graph, model->inputs);
  for (const bool unroll : {false, true}) {
    Graph rewritten = graph;
    int rounds = 0;
    while (run_all(rewritten, unroll)) ASSERT_LT(++rounds, 10) << "does not come to rest";
    const Status status = verify_graph(rewritten);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(difference(*interpret(rewritten, model->inputs), expected), "");
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Reduced, Models, ::testing::ValuesIn(model_names()), test_name);

}  // namespace
}  // namespace weft
