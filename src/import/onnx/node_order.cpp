#include "import/onnx/node_order.h"

#include <fmt/format.h>

#include <functional>
#include <queue>
#include <set>
#include <unordered_map>

#include "import/builder/refusal.h"

namespace weft::onnx {
namespace {

using Producers = std::unordered_map<std::string_view, size_t>;

void collect_reads(const NodeDef& node, std::set<std::string_view>& reads);

/// What a subgraph reads from outside.
void collect_graph_reads(const GraphDef& graph, std::set<std::string_view>& reads) {
  std::set<std::string_view> inner;
  for (const NodeDef& node : graph.nodes) collect_reads(node, inner);
  for (const ValueDef& output : graph.outputs) inner.insert(output.name);
  for (const ValueDef& input : graph.inputs) inner.erase(input.name);
  for (const TensorDef& tensor : graph.initializers) inner.erase(tensor.name);
  for (const NodeDef& node : graph.nodes) {
    for (std::string_view name : node.outputs) inner.erase(name);
  }
  reads.insert(inner.begin(), inner.end());
}

void collect_reads(const NodeDef& node, std::set<std::string_view>& reads) {
  for (std::string_view name : node.inputs) {
    if (!name.empty()) reads.insert(name);
  }
  for (const Attribute& attribute : node.attributes) {
    if (attribute.g != nullptr) collect_graph_reads(*attribute.g, reads);
  }
}

Producers find_producers(const std::vector<NodeDef>& nodes) {
  Producers producers;
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (std::string_view name : nodes[n].outputs) {
      if (!name.empty() && !producers.emplace(name, n).second) {
        refuse_invalid(fmt::format("value '{}' is made twice", name));
      }
    }
  }
  return producers;
}

/// Which nodes are needed, and for each of those how many others it waits for and which wait for
/// it.
struct Dependences {
  std::vector<bool> needed;
  std::vector<size_t> missing;
  std::vector<std::vector<size_t>> readers;
  size_t needed_count = 0;
};

Dependences find_dependences(const std::vector<NodeDef>& nodes,
                             const std::vector<std::string_view>& outputs,
                             const Producers& producers) {
  Dependences result{std::vector<bool>(nodes.size(), false), std::vector<size_t>(nodes.size(), 0),
                     std::vector<std::vector<size_t>>(nodes.size()), 0};
  std::vector<size_t> todo;
  const auto need = [&](std::string_view name) {
    const auto found = producers.find(name);
    if (found == producers.end()) return nodes.size();
    if (!result.needed[found->second]) {
      result.needed[found->second] = true;
      ++result.needed_count;
      todo.push_back(found->second);
    }
    return found->second;
  };
  for (std::string_view name : outputs) need(name);
  while (!todo.empty()) {
    const size_t n = todo.back();
    todo.pop_back();
    for (std::string_view name : names_read(nodes[n])) {
      const size_t producer = need(name);
      if (producer == nodes.size()) continue;
      ++result.missing[n];
      result.readers[producer].push_back(n);
    }
  }
  return result;
}

}  // namespace

std::vector<std::string_view> names_read(const NodeDef& node) {
  std::set<std::string_view> reads;
  collect_reads(node, reads);
  return {reads.begin(), reads.end()};
}

std::vector<size_t> order_nodes(const std::vector<NodeDef>& nodes,
                                const std::vector<std::string_view>& outputs) {
  Dependences dependences = find_dependences(nodes, outputs, find_producers(nodes));
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (dependences.needed[n] && dependences.missing[n] == 0) ready.push(n);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t n = ready.top();
    ready.pop();
    order.push_back(n);
    for (size_t reader : dependences.readers[n]) {
      if (--dependences.missing[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() == dependences.needed_count) return order;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (dependences.needed[n] && dependences.missing[n] > 0) {
      refuse_invalid(
          fmt::format("node '{}' ({}) depends on its own result", nodes[n].name, nodes[n].op_type));
    }
  }
  return order;
}

}  // namespace weft::onnx
