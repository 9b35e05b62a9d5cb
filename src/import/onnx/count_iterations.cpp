#include "import/onnx/count_iterations.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>

#include "import/onnx/graph_importer.h"
#include "import/onnx/node_order.h"

namespace weft::onnx {

namespace {

/// Nodes that are imported for the count: of all iterations together.
constexpr int64_t kMostNodes = 30'000;
/// Elements of what the condition depends on.
constexpr int64_t kMostElements = 64;

/// The part of a loop's body that decides its end: (iteration, condition, `carries` of the loop) ->
/// (condition, these carries).
struct Ending {
  GraphDef body;
  std::vector<size_t> carries;
};

Ending ending_of(const GraphDef& body, size_t carry_count) {
  Ending out;
  std::vector<std::string_view> wanted{body.outputs[0].name};
  std::vector<size_t> order;
  std::set<std::string_view> read;
  for (bool grows = true; grows;) {
    grows = false;
    order = order_nodes(body.nodes, wanted);
    read.insert(wanted.begin(), wanted.end());
    for (const size_t node : order) {
      for (const std::string_view name : names_read(body.nodes[node])) read.insert(name);
    }
    for (size_t c = 0; c < carry_count; ++c) {
      if (!read.contains(body.inputs[c + 2].name)) continue;
      if (std::ranges::find(out.carries, c) != out.carries.end()) continue;
      out.carries.push_back(c);
      wanted.push_back(body.outputs[c + 1].name);
      grows = true;
    }
  }
  for (const size_t node : order) out.body.nodes.push_back(body.nodes[node]);
  std::ranges::copy_if(body.initializers, std::back_inserter(out.body.initializers),
                       [&](const TensorDef& t) { return read.contains(t.name); });
  out.body.inputs = {body.inputs[0], body.inputs[1]};
  out.body.outputs = {body.outputs[0]};
  for (const size_t c : out.carries) {
    out.body.inputs.push_back(body.inputs[c + 2]);
    out.body.outputs.push_back(body.outputs[c + 1]);
  }
  return out;
}

bool is_small_constant(GraphBuilder& b, ValueId v) {
  return !is_sequence(v) && b.size(v) <= kMostElements && b.constant_value(v) != nullptr;
}

std::optional<int64_t> count(OpContext& n, const Ending& ending, std::vector<ValueId> carries,
                             int64_t most) {
  const auto each = static_cast<int64_t>(ending.body.nodes.size()) + 1;
  for (int64_t i = 0; i < most && (i + 1) * each <= kMostNodes; ++i) {
    carries.insert(carries.begin(),
                   {n.b.scalar_int(DType::kI64, i), n.b.scalar_int(DType::kBool, 1)});
    carries = n.importer().import_subgraph(ending.body, n, n.b, carries);
    for (const ValueId v : carries) {
      if (!is_small_constant(n.b, v)) return std::nullopt;
    }
    const HostTensor& goes_on = *n.b.constant_value(carries[0]);
    if (goes_on.size() != 1) return std::nullopt;
    if (goes_on.at_int(0) == 0 || i + 1 == most) return i + 1;
    carries.erase(carries.begin());
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> count_iterations(OpContext& n, const GraphDef& body,
                                        const std::vector<ValueId>& carries,
                                        std::optional<int64_t> most) {
  if (most == 0) return 0;
  if (!body.sparse_initializers.empty()) return std::nullopt;
  const Ending ending = ending_of(body, carries.size());
  std::vector<ValueId> first;
  for (const size_t c : ending.carries) {
    first.push_back(carries[c]);
    if (!is_small_constant(n.b, first.back())) return std::nullopt;
  }
  const size_t mark = n.importer().mark();
  const auto none = [&]() -> std::optional<int64_t> {
    n.importer().forget(mark);
    return std::nullopt;
  };
  try {
    const auto counted =
        count(n, ending, std::move(first), most.value_or(std::numeric_limits<int64_t>::max()));
    return counted ? counted : none();
  } catch (const DependsOnRefused&) {
    return none();
  } catch (const Refusal&) {
    return none();
  }
}

}  // namespace weft::onnx
