#include "import/onnx/node_order.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <queue>
#include <set>

#include "import/onnx/refusal.h"

namespace weft::onnx {
namespace {

using Producers = std::map<std::string_view, size_t>;

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

/// For each needed node the nodes it waits for; nodes not in the map are not needed.
std::map<size_t, std::set<size_t>> find_needed(const std::vector<NodeDef>& nodes,
                                               const std::vector<std::string_view>& outputs,
                                               const Producers& producers) {
  std::map<size_t, std::set<size_t>> waits;
  std::vector<size_t> todo;
  const auto need = [&](std::string_view name) -> const size_t* {
    const auto found = producers.find(name);
    if (found == producers.end()) return nullptr;
    if (waits.try_emplace(found->second).second) todo.push_back(found->second);
    return &found->second;
  };
  for (std::string_view name : outputs) need(name);
  while (!todo.empty()) {
    const size_t n = todo.back();
    todo.pop_back();
    for (std::string_view name : names_read(nodes[n])) {
      if (const size_t* producer = need(name)) waits[n].insert(*producer);
    }
  }
  return waits;
}

}  // namespace

std::vector<std::string_view> names_read(const NodeDef& node) {
  std::set<std::string_view> reads;
  collect_reads(node, reads);
  return {reads.begin(), reads.end()};
}

std::vector<size_t> order_nodes(const std::vector<NodeDef>& nodes,
                                const std::vector<std::string_view>& outputs) {
  const auto waits = find_needed(nodes, outputs, find_producers(nodes));
  std::map<size_t, std::vector<size_t>> readers;
  std::map<size_t, size_t> missing;
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (const auto& [n, producers] : waits) {
    for (size_t producer : producers) readers[producer].push_back(n);
    missing[n] = producers.size();
    if (producers.empty()) ready.push(n);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t n = ready.top();
    ready.pop();
    order.push_back(n);
    for (size_t reader : readers[n]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() == waits.size()) return order;
  for (const auto& [n, count] : missing) {
    if (count > 0) {
      refuse_invalid(
          fmt::format("node '{}' ({}) depends on its own result", nodes[n].name, nodes[n].op_type));
    }
  }
  return order;
}

}  // namespace weft::onnx
