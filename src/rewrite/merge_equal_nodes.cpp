#include "rewrite/merge_equal_nodes.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "graph/attribute_fields.h"
#include "rewrite/graph_rebuilder.h"
#include "support/hash.h"

namespace weft {
namespace {

/// A few pieces of a large constant stand for it: weights must not be read as a whole, nor many of
/// their pages mapped, just to find that they differ.
uint64_t sampled_hash(const HostTensor& value) {
  constexpr size_t kPiece = 256;
  const std::span<const std::byte> bytes(value.raw(), static_cast<size_t>(value.bytes()));
  if (bytes.size() <= 4 * kPiece) return hash64(bytes);
  Hasher hasher;
  for (size_t i = 0; i < 4; ++i) {
    hasher.add_bytes(bytes.subspan((bytes.size() - kPiece) / 3 * i, kPiece));
  }
  return hasher.digest64();
}

uint64_t hash_node(const Graph& graph, const Node& node) {
  Hasher hasher;
  hasher.add_value(static_cast<uint64_t>(node.op));
  if (const auto* constant = std::get_if<ConstantAttrs>(&node.attrs)) {
    hasher.add_value(sampled_hash(constant->value));
  } else {
    hasher.add_value(hash_attributes(node.attrs));
  }
  for (ValueId v : node.operands) hasher.add_value(static_cast<uint64_t>(v));
  for (ValueId v : node.results) {
    hasher.add_value(static_cast<uint64_t>(graph.type(v).dtype));
    for (int64_t extent : graph.type(v).shape) hasher.add_value(static_cast<uint64_t>(extent));
  }
  return hasher.digest64();
}

bool equal_nodes(const Graph& graph, const Node& a, const Node& b) {
  if (a.op != b.op || a.operands != b.operands || a.results.size() != b.results.size() ||
      a.regions != b.regions || !equal_attributes(a.attrs, b.attrs)) {
    return false;
  }
  for (size_t i = 0; i < a.results.size(); ++i) {
    if (graph.type(a.results[i]) != graph.type(b.results[i])) return false;
  }
  return true;
}

}  // namespace

bool merge_equal_nodes(Graph& graph) {
  const bool regions_changed = rewrite_regions(graph, merge_equal_nodes);
  GraphRebuilder rebuild(graph);
  // Indices into the new node list by hash. Never iterated, so its order does not matter.
  std::unordered_multimap<uint64_t, size_t> known;
  for (Node& node : rebuild.take_nodes()) {
    rebuild.forward_operands(node);
    const uint64_t hash = hash_node(graph, node);
    const auto [begin, end] = known.equal_range(hash);
    const auto equal = std::find_if(begin, end, [&](const auto& entry) {
      return equal_nodes(graph, graph.nodes[entry.second], node);
    });
    if (equal != end) {
      rebuild.replace(node, graph.nodes[equal->second].results);
    } else {
      known.emplace(hash, graph.nodes.size());
      rebuild.keep(std::move(node));
    }
  }
  return rebuild.finish() || regions_changed;
}

}  // namespace weft
