#include "tests/graph/tangled_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/graph/random_graph.h"

namespace weft {
namespace {

TEST(TangledGraph, VerifiesAndRoundTrips) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto options = seed % 2 == 0 ? TangledGraphOptions() : small_tangled_graphs();
    const Graph graph = tangled_graph(seed, options);
    const Status status = verify_graph(graph);
    ASSERT_TRUE(status.ok()) << status.error().message << "\n" << print(graph);
    const std::string text = print(graph);
    const Result<Graph> parsed = parse_graph(text);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message << "\n" << text;
    ASSERT_EQ(print(*parsed), text);
    ASSERT_EQ(print(tangled_graph(seed, options)), text);
    EXPECT_GE(graph.nodes.size(), static_cast<size_t>(options.least_nodes));
    // The last kind drawn may add several nodes.
    EXPECT_LE(graph.nodes.size(), static_cast<size_t>(options.most_nodes) + 20);
  }
}

TEST(TangledGraph, HoldsWhatItPromises) {
  std::map<GraphOp, int> ops;
  std::map<size_t, int> readers;
  int read_outputs = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = tangled_graph(seed);
    for (const Node& node : graph.nodes) ++ops[node.op];
    const UseDef uses = use_def(graph);
    for (const auto& of_value : uses.uses) ++readers[of_value.size()];
    for (const ValueId v : graph.outputs)
      read_outputs += !uses.uses[static_cast<size_t>(v)].empty();
  }
  for (const GraphOp op :
       {GraphOp::kConstant, GraphOp::kElementwise, GraphOp::kBroadcast, GraphOp::kReshape,
        GraphOp::kTranspose, GraphOp::kSlice, GraphOp::kPad, GraphOp::kConcat, GraphOp::kGather,
        GraphOp::kReduce, GraphOp::kArgReduce, GraphOp::kReduceWindow, GraphOp::kCumulative,
        GraphOp::kDotGeneral}) {
    EXPECT_GE(ops[op], 10) << graph_op_name(op);
  }
  for (const size_t n : {2, 3, 4}) EXPECT_GE(readers[n], 100) << n << " readers";
  EXPECT_GE(read_outputs, 50);
}

}  // namespace
}  // namespace weft
