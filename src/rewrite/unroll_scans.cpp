#include "rewrite/unroll_scans.h"

#include <algorithm>

#include "rewrite/graph_rebuilder.h"

namespace weft {
namespace {

constexpr int64_t kMaxNodes = int64_t{1} << 20;

int64_t trip_count(const GraphRebuilder& rebuild, const Node& node) {
  const auto& attrs = std::get<ScanAttrs>(node.attrs);
  return rebuild.type(node.operands[static_cast<size_t>(attrs.carry_count)]).shape[0];
}

bool unrolls(const GraphRebuilder& rebuild, const Node& node, int64_t max_trips) {
  if (node.op != GraphOp::kScan) return false;
  const int64_t trips = trip_count(rebuild, node);
  // What glue a trip needs, besides the region: a slice and a reshape in, a reshape out.
  const auto per_trip = static_cast<int64_t>(node.regions[0]->nodes.size() +
                                             2 * node.operands.size() + node.results.size());
  return trips <= max_trips && trips <= kMaxNodes / per_trip;
}

ValueId add_slice(GraphRebuilder& rebuild, ValueId x, int64_t index, int32_t origin) {
  TensorType type = rebuild.type(x);
  SliceAttrs attrs{std::vector<int64_t>(type.shape.size(), 0),
                   std::vector<int64_t>(type.shape.size(), 1)};
  attrs.start[0] = index;
  type.shape[0] = 1;
  const ValueId slice = rebuild.add(GraphOp::kSlice, attrs, {x}, origin, type);
  type.shape.erase(type.shape.begin());
  return rebuild.add(GraphOp::kReshape, ReshapeAttrs{}, {slice}, origin, type);
}

ValueId add_stack(GraphRebuilder& rebuild, const std::vector<ValueId>& slices,
                  const TensorType& type, int32_t origin) {
  if (slices.empty()) return rebuild.add_constant(HostTensor(type.dtype, type.shape), origin);
  TensorType row = type;
  row.shape[0] = 1;
  std::vector<ValueId> rows;
  for (ValueId v : slices) {
    rows.push_back(rebuild.add(GraphOp::kReshape, ReshapeAttrs{}, {v}, origin, row));
  }
  return rebuild.add(GraphOp::kConcat, ConcatAttrs{0}, std::move(rows), origin);
}

void unroll(GraphRebuilder& rebuild, const Node& node) {
  const auto& attrs = std::get<ScanAttrs>(node.attrs);
  const auto carries = static_cast<size_t>(attrs.carry_count);
  const auto scanned = static_cast<size_t>(attrs.scanned_count);
  const int64_t trips = trip_count(rebuild, node);
  std::vector<ValueId> arguments = node.operands;
  std::vector<std::vector<ValueId>> stacked(
      node.results.size(), std::vector<ValueId>(static_cast<size_t>(trips), kNoValue));
  for (int64_t t = 0; t < trips; ++t) {
    for (size_t i = 0; i < scanned; ++i) {
      const int64_t index = attrs.x_reverse[i] ? trips - 1 - t : t;
      arguments[carries + i] = add_slice(rebuild, node.operands[carries + i], index, node.origin);
    }
    const std::vector<ValueId> outputs =
        rebuild.add_region(*node.regions[0], arguments, node.origin);
    std::copy_n(outputs.begin(), carries, arguments.begin());
    for (size_t i = carries; i < outputs.size(); ++i) {
      const int64_t index = attrs.y_reverse[i - carries] ? trips - 1 - t : t;
      stacked[i][static_cast<size_t>(index)] = outputs[i];
    }
  }
  std::vector<ValueId> results(arguments.begin(), arguments.begin() + attrs.carry_count);
  for (size_t i = carries; i < node.results.size(); ++i) {
    results.push_back(add_stack(rebuild, stacked[i], rebuild.type(node.results[i]), node.origin));
  }
  rebuild.replace(node, results);
}

}  // namespace

bool unroll_scans(Graph& graph, int64_t max_trips) {
  const bool regions_changed =
      rewrite_regions(graph, [&](Graph& region) { return unroll_scans(region, max_trips); });
  GraphRebuilder rebuild(graph);
  for (Node& node : rebuild.take_nodes()) {
    rebuild.forward_operands(node);
    if (unrolls(rebuild, node, max_trips)) {
      unroll(rebuild, node);
    } else {
      rebuild.keep(std::move(node));
    }
  }
  return rebuild.finish() || regions_changed;
}

}  // namespace weft
