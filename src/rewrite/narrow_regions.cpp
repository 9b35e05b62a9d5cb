#include "rewrite/narrow_regions.h"

#include <algorithm>
#include <map>
#include <memory>
#include <ranges>

#include "rewrite/graph_rebuilder.h"

namespace weft {
namespace {

/// A region under work, with edits that are applied to it at once by finish().
struct RegionEdit {
  Graph graph;
  std::vector<bool> read;        ///< by a node or as an output
  std::vector<ValueId> renamed;  ///< what its readers shall read instead
  std::vector<Node> head;        ///< new first nodes

  explicit RegionEdit(const Graph& region)
      : graph(region), read(region.values.size()), renamed(region.values.size()) {
    for (size_t v = 0; v < renamed.size(); ++v) renamed[v] = static_cast<ValueId>(v);
    for (const Node& node : graph.nodes) note_read(node.operands);
    note_read(graph.outputs);
  }

  void note_read(const std::vector<ValueId>& values) {
    for (ValueId v : values) read[static_cast<size_t>(v)] = true;
  }

  ValueId new_value(const TensorType& type) {
    const ValueId v = graph.new_value({}, type);
    read.push_back(false);
    renamed.push_back(v);
    return v;
  }

  void rename(ValueId from, ValueId to) {
    renamed[static_cast<size_t>(from)] = to;
    read[static_cast<size_t>(to)] =
        read[static_cast<size_t>(to)] || read[static_cast<size_t>(from)];
  }

  Graph finish() {
    const auto apply = [&](std::vector<ValueId>& values) {
      for (ValueId& v : values) v = renamed[static_cast<size_t>(v)];
    };
    for (Node& node : graph.nodes) apply(node.operands);
    apply(graph.outputs);
    graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(head.begin()),
                       std::make_move_iterator(head.end()));
    drop_unmade_values(graph);
    return std::move(graph);
  }
};

/// One node with regions under work.
struct Narrowing {
  Node node;
  std::vector<RegionEdit> regions;
  /// Operands before `captures_begin` are the condition, carries and scanned tensors; regions see
  /// operand i as input i - shift (an `if` keeps its condition to itself).
  size_t captures_begin = 0;
  size_t shift = 0;
  bool changed = false;

  explicit Narrowing(Node n) : node(std::move(n)) {
    for (const auto& region : node.regions) regions.emplace_back(*region);
    if (node.op == GraphOp::kIf) {
      captures_begin = shift = 1;
    } else if (const auto* loop = std::get_if<WhileAttrs>(&node.attrs)) {
      captures_begin = static_cast<size_t>(loop->carry_count);
    } else {
      const auto& scan = std::get<ScanAttrs>(node.attrs);
      captures_begin = static_cast<size_t>(scan.carry_count + scan.scanned_count);
    }
  }
};

/// Whether it makes floats of narrower ones.
bool widens_floats(const Graph& graph, const Node& node) {
  const auto* applied = std::get_if<ElementwiseAttrs>(&node.attrs);
  if (applied == nullptr || applied->op != ScalarOp::kConvert) return false;
  const DType from = graph.type(node.operands[0]).dtype, to = graph.type(node.results[0]).dtype;
  return is_float(from) && is_float(to) && byte_size(from) < byte_size(to);
}

template <typename T>
void erase_at(std::vector<T>& values, size_t i) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(i));
}

class Narrower {
 public:
  Narrower(Graph& graph, int64_t max_constant_bytes, bool for_gpu)
      : rebuild_(graph),
        max_bytes_(max_constant_bytes),
        for_gpu_(for_gpu),
        read_(graph.values.size()) {
    for (const Node& node : graph.nodes) {
      for (ValueId v : node.operands) read_[static_cast<size_t>(v)] = true;
    }
    for (ValueId v : graph.outputs) read_[static_cast<size_t>(v)] = true;
  }

  bool run() {
    bool changed = false;
    for (Node& node : rebuild_.take_nodes()) {
      rebuild_.forward_operands(node);
      if (node.regions.empty()) {
        rebuild_.keep(std::move(node));
      } else {
        changed = narrow(Narrowing(std::move(node))) || changed;
      }
    }
    const bool replaced = rebuild_.finish();
    if (changed && !replaced) drop_unmade_values(rebuild_.graph());
    return changed || replaced;
  }

 private:
  bool narrow(Narrowing n) {
    turn_constant_carries(n);
    turn_stacked_slices(n);
    drop_unread_results(n);
    if (for_gpu_ && n.node.op != GraphOp::kIf) widen_inside(n);
    merge_equal_captures(n);
    narrow_captures(n);
    if (n.changed) {
      for (size_t r = 0; r < n.regions.size(); ++r) {
        n.node.regions[r] = std::make_shared<const Graph>(n.regions[r].finish());
      }
    }
    rebuild_.keep(std::move(n.node));
    return n.changed;
  }

  /// A carry whose next value is itself is a capture, and its last value the first.
  void turn_constant_carries(Narrowing& n) {
    int64_t* count = nullptr;
    if (auto* loop = std::get_if<WhileAttrs>(&n.node.attrs)) count = &loop->carry_count;
    if (auto* scan = std::get_if<ScanAttrs>(&n.node.attrs)) count = &scan->carry_count;
    if (count == nullptr) return;
    Graph& body = n.regions.back().graph;
    for (auto i = static_cast<size_t>(*count); i-- > 0;) {
      // The node must keep a result to stand for.
      if (body.outputs[i] != body.inputs[i] || n.node.results.size() == 1) continue;
      const ValueId initial = n.node.operands[i];
      rebuild_.replace_result(n.node.results[i], initial);
      erase_at(n.node.results, i);
      erase_at(body.outputs, i);
      erase_at(body.output_names, i);
      move_to_end(n.node.operands, i);
      for (RegionEdit& region : n.regions) move_to_end(region.graph.inputs, i);
      --*count;
      --n.captures_begin;
      n.changed = true;
    }
  }

  /// A stack of what each step is given, at most reshaped, is what the slices are of.
  void turn_stacked_slices(Narrowing& n) {
    auto* scan = std::get_if<ScanAttrs>(&n.node.attrs);
    if (scan == nullptr) return;
    Graph& body = n.regions[0].graph;
    const auto carries = static_cast<size_t>(scan->carry_count);
    for (size_t i = n.node.results.size(); i-- > carries && n.node.results.size() > 1;) {
      const auto slice = std::ranges::find(body.inputs, before_reshapes(body, body.outputs[i]));
      const auto at = static_cast<size_t>(slice - body.inputs.begin());
      if (at < carries || at >= n.captures_begin) continue;
      if (scan->x_reverse[at - carries] != scan->y_reverse[i - carries]) continue;
      ValueId whole = n.node.operands[at];
      const TensorType type = rebuild_.type(n.node.results[i]);
      if (rebuild_.type(whole) != type)
        whole = rebuild_.add(GraphOp::kReshape, ReshapeAttrs{}, {whole}, n.node.origin, type);
      rebuild_.replace_result(n.node.results[i], whole);
      erase_at(n.node.results, i);
      erase_at(scan->y_reverse, i - carries);
      erase_at(body.outputs, i);
      erase_at(body.output_names, i);
      n.changed = true;
    }
  }

  static ValueId before_reshapes(const Graph& graph, ValueId v) {
    for (const Node& node : std::views::reverse(graph.nodes)) {
      if (node.op == GraphOp::kReshape && node.results[0] == v) v = node.operands[0];
    }
    return v;
  }

  static void move_to_end(std::vector<ValueId>& values, size_t i) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(first, first + 1, values.end());
  }

  void drop_unread_results(Narrowing& n) {
    size_t first = 0;
    auto* scan = std::get_if<ScanAttrs>(&n.node.attrs);
    if (n.node.op == GraphOp::kWhile) return;
    if (scan != nullptr) first = static_cast<size_t>(scan->carry_count);
    for (size_t i = n.node.results.size(); i-- > first && n.node.results.size() > 1;) {
      if (read_[static_cast<size_t>(n.node.results[i])]) continue;
      erase_at(n.node.results, i);
      if (scan != nullptr) {
        erase_at(scan->y_reverse, i - first);
      }
      for (RegionEdit& region : n.regions) {
        erase_at(region.graph.outputs, i);
        erase_at(region.graph.output_names, i);
      }
      n.changed = true;
    }
  }

  /// A capture that is widened, and at most reshaped, in front of the loop is widened in it.
  void widen_inside(Narrowing& n) {
    for (size_t i = n.captures_begin; i < n.node.operands.size(); ++i) {
      std::vector<const Node*> steps = {rebuild_.definition(n.node.operands[i])};
      while (steps.back() != nullptr && steps.back()->op == GraphOp::kReshape)
        steps.push_back(rebuild_.definition(steps.back()->operands[0]));
      if (steps.back() == nullptr || !widens_floats(rebuild_.graph(), *steps.back())) continue;
      n.node.operands[i] = steps.back()->operands[0];
      for (RegionEdit& region : n.regions) widen_inside(region, i - n.shift, steps);
      n.changed = true;
    }
  }

  /// Input `i` becomes what the last of `steps` reads, and they the head of the region.
  void widen_inside(RegionEdit& region, size_t i, const std::vector<const Node*>& steps) {
    ValueId wide = region.graph.inputs[i];
    const bool is_read = region.read[static_cast<size_t>(wide)];
    std::vector<Node> made;
    for (const Node* step : steps) {
      const ValueId operand = region.new_value(rebuild_.type(step->operands[0]));
      made.insert(made.begin(), Node{step->op, step->attrs, {operand}, {wide}, {}, -1});
      wide = operand;
    }
    region.graph.inputs[i] = wide;
    region.read[static_cast<size_t>(wide)] = is_read;
    if (is_read) std::ranges::move(made, std::back_inserter(region.head));
  }

  /// Leaves the merged captures unread, for narrow_captures to drop.
  static void merge_equal_captures(Narrowing& n) {
    std::map<ValueId, size_t> first_of;
    for (size_t i = n.captures_begin; i < n.node.operands.size(); ++i) {
      const auto [entry, fresh] = first_of.try_emplace(n.node.operands[i], i);
      if (fresh) continue;
      for (RegionEdit& region : n.regions) {
        const ValueId from = region.graph.inputs[i - n.shift];
        region.rename(from, region.graph.inputs[entry->second - n.shift]);
        region.read[static_cast<size_t>(from)] = false;
      }
    }
  }

  void narrow_captures(Narrowing& n) {
    size_t kept = n.captures_begin;
    for (size_t i = n.captures_begin; i < n.node.operands.size(); ++i) {
      if (goes(n, i)) continue;
      n.node.operands[kept] = n.node.operands[i];
      for (RegionEdit& region : n.regions) {
        region.graph.inputs[kept - n.shift] = region.graph.inputs[i - n.shift];
      }
      ++kept;
    }
    if (kept == n.node.operands.size()) return;
    n.node.operands.resize(kept);
    for (RegionEdit& region : n.regions) region.graph.inputs.resize(kept - n.shift);
    n.changed = true;
  }

  /// Whether no region needs capture `i`, be it that the regions make it themselves from now on.
  bool goes(Narrowing& n, size_t i) {
    const auto reads = [&](const RegionEdit& region) {
      return region.read[static_cast<size_t>(region.graph.inputs[i - n.shift])];
    };
    if (std::none_of(n.regions.begin(), n.regions.end(), reads)) return true;
    const HostTensor* value = rebuild_.constant(n.node.operands[i]);
    const Node* broadcast = rebuild_.definition(n.node.operands[i]);
    if (broadcast != nullptr && broadcast->op != GraphOp::kBroadcast) broadcast = nullptr;
    if (broadcast != nullptr) value = rebuild_.constant(broadcast->operands[0]);
    if (value == nullptr || value->bytes() > max_bytes_) return false;
    for (RegionEdit& region : n.regions) {
      if (reads(region)) make_inside(region, region.graph.inputs[i - n.shift], *value, broadcast);
    }
    return true;
  }

  /// The input becomes the result of a constant, or of a broadcast of one, at the head of the
  /// region.
  static void make_inside(RegionEdit& region, ValueId input, const HostTensor& value,
                          const Node* broadcast) {
    Node constant{GraphOp::kConstant, ConstantAttrs{value}, {}, {input}, {}, -1};
    if (broadcast == nullptr) return region.head.push_back(std::move(constant));
    const ValueId inner = region.new_value({value.dtype(), value.shape()});
    constant.results[0] = inner;
    region.head.push_back(std::move(constant));
    region.head.push_back({GraphOp::kBroadcast, broadcast->attrs, {inner}, {input}, {}, -1});
  }

  GraphRebuilder rebuild_;
  int64_t max_bytes_;
  bool for_gpu_;
  std::vector<bool> read_;
};

}  // namespace

bool narrow_regions(Graph& graph, int64_t max_constant_bytes, bool for_gpu) {
  const bool regions_changed = rewrite_regions(
      graph, [&](Graph& region) { return narrow_regions(region, max_constant_bytes, for_gpu); });
  return Narrower(graph, max_constant_bytes, for_gpu).run() || regions_changed;
}

}  // namespace weft
