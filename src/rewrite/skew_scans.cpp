#include "rewrite/skew_scans.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "rewrite/graph_rebuilder.h"
#include "support/check.h"

namespace weft {
namespace {

constexpr int64_t kFewestSteps = 4;  ///< of a layer, for each layer
constexpr size_t kMostLayers = 64;

const ScanAttrs& scan_attrs(const Node& node) { return std::get<ScanAttrs>(node.attrs); }
bool any(const std::vector<bool>& flags) { return std::ranges::find(flags, true) != flags.end(); }

/// A layer: a scan, and how it reads the one below it.
struct Layer {
  int32_t node = -1;
  std::vector<int32_t> linked;   ///< operands that the layer below makes; none of the first layer
  ValueId below = kNoValue;      ///< what that stacks
  std::vector<int32_t> between;  ///< nodes from there to the operands, in order
  /// Of the values that these make step by step, and of `below`: the axis along which steps lie.
  std::map<ValueId, int64_t> axes;

  bool is_stepped(ValueId v) const { return axes.contains(v); }
  bool is_linked(size_t operand) const {
    return std::ranges::find(linked, static_cast<int32_t>(operand)) != linked.end();
  }
};

/// Scans of one graph above each other.
class Layers {
 public:
  explicit Layers(const Graph& graph) : graph_(graph), uses_(use_def(graph)) {}

  /// The longest chain of layers; empty where no two are.
  std::vector<Layer> find() {
    std::vector<Layer> best;
    std::map<int32_t, std::vector<Layer>> ends;  // chains by their last scan
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto number = static_cast<int32_t>(n);
      if (!is_candidate(graph_.nodes[n])) continue;
      std::vector<Layer> chain{{number, {}, kNoValue, {}, {}}};
      if (auto linked = linked_to(number, ends)) chain = std::move(*linked);
      if (chain.size() > std::max<size_t>(best.size(), 1)) best = chain;
      ends[number] = std::move(chain);
    }
    return best;
  }

 private:
  bool is_candidate(const Node& node) const {
    if (node.op != GraphOp::kScan) return false;
    const ScanAttrs& attrs = scan_attrs(node);
    return attrs.scanned_count > 0 && attrs.carry_count > 0 && !any(attrs.x_reverse) &&
           !any(attrs.y_reverse);
  }
  int64_t trips(const Node& scan) const {
    const auto at = static_cast<size_t>(scan_attrs(scan).carry_count);
    return graph_.type(scan.operands[at]).shape[0];
  }

  /// The chain of a layer below with this scan as the next: through the first operand that leads
  /// there, and all others that read what the same layer stacks.
  std::optional<std::vector<Layer>> linked_to(int32_t number,
                                              const std::map<int32_t, std::vector<Layer>>& ends) {
    const ScanAttrs& attrs = scan_attrs(graph_.nodes[static_cast<size_t>(number)]);
    for (int64_t i = 0; i < attrs.scanned_count; ++i) {
      const auto operand = static_cast<int32_t>(attrs.carry_count + i);
      Layer layer{number, {}, kNoValue, {}, {}};
      if (!links(operand, &layer) || !is_next(layer, ends)) continue;
      for (int64_t j = i + 1; j < attrs.scanned_count; ++j)
        links(static_cast<int32_t>(attrs.carry_count + j), &layer);
      std::ranges::sort(layer.between);
      std::vector<Layer> out = ends.at(uses_.def[static_cast<size_t>(layer.below)]);
      out.push_back(std::move(layer));
      if (depends_only_by_links(out)) return out;
    }
    return std::nullopt;
  }

  /// Whether a slice is made step by step of what the layer below stacks; notes how.
  bool links(int32_t operand, Layer* layer) {
    const Node& scan = graph_.nodes[static_cast<size_t>(layer->node)];
    Layer with = *layer;
    const auto at = stepped(scan.operands[static_cast<size_t>(operand)], trips(scan), &with);
    if (!at || *at != 0) return false;
    with.linked.push_back(operand);
    *layer = std::move(with);
    return true;
  }

  /// Whether a layer may stand above the one that it is linked to.
  bool is_next(const Layer& layer, const std::map<int32_t, std::vector<Layer>>& ends) const {
    const int64_t steps = trips(graph_.nodes[static_cast<size_t>(layer.node)]);
    const int32_t below = uses_.def[static_cast<size_t>(layer.below)];
    const auto chain = ends.find(below);
    return chain != ends.end() && chain->second.size() < kMostLayers &&
           trips(graph_.nodes[static_cast<size_t>(below)]) == steps &&
           steps >= kFewestSteps * static_cast<int64_t>(chain->second.size() + 1);
  }

  /// The axis of the steps, where the value is made step by step of what one scan stacks.
  std::optional<int64_t> stepped(ValueId v, int64_t steps, Layer* layer) {
    const int32_t made_by = uses_.def[static_cast<size_t>(v)];
    if (made_by < 0) return std::nullopt;
    const Node& node = graph_.nodes[static_cast<size_t>(made_by)];
    if (is_candidate(node)) {
      const auto result = std::ranges::find(node.results, v) - node.results.begin();
      if (result < scan_attrs(node).carry_count) return std::nullopt;
      if (layer->below != kNoValue && layer->below != v) return std::nullopt;
      layer->below = v;
      layer->axes[v] = 0;
      return 0;
    }
    if (node.results.size() != 1 || !node.regions.empty()) return std::nullopt;
    if (const auto known = layer->axes.find(v); known != layer->axes.end()) return known->second;
    const auto at = axis_through(node, steps, layer);
    if (!at) return std::nullopt;
    layer->axes[v] = *at;
    layer->between.push_back(made_by);
    return at;
  }

  std::optional<int64_t> axis_through(const Node& node, int64_t steps, Layer* layer) {
    std::vector<std::optional<int64_t>> of;
    std::optional<int64_t> at;
    for (const ValueId v : node.operands) {
      of.push_back(stepped(v, steps, layer));
      if (of.back() && at && *of.back() != *at) return std::nullopt;
      if (of.back()) at = of.back();
    }
    if (!at) return std::nullopt;
    const Shape& to = graph_.type(node.results[0]).shape;
    switch (node.op) {
      case GraphOp::kElementwise:
        return same_in_each(node, of, *at) ? at : std::nullopt;
      case GraphOp::kTranspose: {
        const auto& permutation = std::get<TransposeAttrs>(node.attrs).permutation;
        return std::ranges::find(permutation, *at) - permutation.begin();
      }
      case GraphOp::kBroadcast:
        return std::get<BroadcastAttrs>(node.attrs).dims[static_cast<size_t>(*at)];
      case GraphOp::kReshape:
        return axis_of_reshape(graph_.type(node.operands[0]).shape, *at, to, steps);
      case GraphOp::kDotGeneral:
        return axis_of_product(node, of, *at);
      default:
        return std::nullopt;
    }
  }

  /// Whether what does not depend on the steps is a broadcast, the same in each of them.
  bool same_in_each(const Node& node, const std::vector<std::optional<int64_t>>& of,
                    int64_t at) const {
    for (size_t i = 0; i < of.size(); ++i) {
      if (of[i]) continue;
      const int32_t made_by = uses_.def[static_cast<size_t>(node.operands[i])];
      if (made_by < 0) return false;
      const Node& operand = graph_.nodes[static_cast<size_t>(made_by)];
      if (operand.op != GraphOp::kBroadcast) return false;
      const auto& dims = std::get<BroadcastAttrs>(operand.attrs).dims;
      if (std::ranges::find(dims, at) != dims.end()) return false;
    }
    return true;
  }

  static std::optional<int64_t> axis_of_reshape(const Shape& from, int64_t at, const Shape& to,
                                                int64_t steps) {
    int64_t before = 1;
    for (int64_t i = 0; i < at; ++i) before *= from[static_cast<size_t>(i)];
    int64_t reached = 1;
    for (size_t i = 0; i < to.size(); ++i) {
      if (reached == before && to[i] == steps) return static_cast<int64_t>(i);
      reached *= to[i];
    }
    return std::nullopt;
  }

  std::optional<int64_t> axis_of_product(const Node& node,
                                         const std::vector<std::optional<int64_t>>& of,
                                         int64_t at) const {
    if (of[0] && of[1]) return std::nullopt;
    const auto& attrs = std::get<DotAttrs>(node.attrs);
    const bool left = of[0].has_value();
    const auto& batch = left ? attrs.lhs_batch : attrs.rhs_batch;
    const auto& contract = left ? attrs.lhs_contract : attrs.rhs_contract;
    const auto has = [&](const std::vector<int64_t>& axes, int64_t a) {
      return std::ranges::find(axes, a) != axes.end();
    };
    if (has(batch, at) || has(contract, at)) return std::nullopt;
    auto place = static_cast<int64_t>(batch.size());
    if (!left) {
      const auto rank = static_cast<int64_t>(graph_.type(node.operands[0]).shape.size());
      place = rank - static_cast<int64_t>(attrs.lhs_contract.size());
    }
    for (int64_t a = 0; a < at; ++a) place += has(batch, a) || has(contract, a) ? 0 : 1;
    return place;
  }

  /// Whether nothing of a layer but its link depends on the layers below it.
  bool depends_only_by_links(const std::vector<Layer>& chain) const {
    std::vector<bool> depends(graph_.values.size(), false);
    const auto mark = [&](const Node& node) {
      for (const ValueId r : node.results) depends[static_cast<size_t>(r)] = true;
    };
    const auto marked = [&](ValueId v) { return depends[static_cast<size_t>(v)]; };
    std::map<int32_t, const Layer*> by_node, between;
    for (const Layer& layer : chain) {
      by_node[layer.node] = &layer;
      for (const int32_t n : layer.between) {
        if (!between.emplace(n, &layer).second) return false;
      }
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const auto layer = by_node.find(static_cast<int32_t>(n));
      if (layer != by_node.end()) {
        for (size_t i = 0; i < node.operands.size(); ++i) {
          if (!layer->second->is_linked(i) && marked(node.operands[i])) return false;
        }
      } else if (std::ranges::none_of(node.operands, marked)) {
        continue;
      }
      if (const auto of = between.find(static_cast<int32_t>(n)); of != between.end()) {
        for (const ValueId v : node.operands) {
          if (marked(v) && !of->second->is_stepped(v)) return false;
        }
      }
      mark(node);
    }
    return true;
  }

  const Graph& graph_;
  const UseDef uses_;
};

/// Writes one scan in the place of the layers.
class Wavefront {
 public:
  Wavefront(Graph& graph, std::vector<Layer> layers)
      : before_(graph), layers_(std::move(layers)), rebuild_(graph) {}

  void run() {
    std::vector<Node> nodes = rebuild_.take_nodes();
    std::set<int32_t> own;
    for (const Layer& layer : layers_) own.insert(layer.node);
    std::vector<bool> depends(before_.values.size(), false);
    std::vector<size_t> later;
    for (size_t n = 0; n < nodes.size(); ++n) {
      const bool reads = std::ranges::any_of(
          nodes[n].operands, [&](ValueId v) { return depends[static_cast<size_t>(v)]; });
      const bool is_layer = own.contains(static_cast<int32_t>(n));
      if (!reads && !is_layer) {
        rebuild_.keep(std::move(nodes[n]));
        continue;
      }
      for (const ValueId r : nodes[n].results) depends[static_cast<size_t>(r)] = true;
      if (!is_layer) later.push_back(n);
    }
    find_needed(nodes, &later);
    write();
    for (const size_t n : later) {
      rebuild_.forward_operands(nodes[n]);
      rebuild_.keep(std::move(nodes[n]));
    }
    rebuild_.finish();
  }

 private:
  const Node& scan(size_t l) const { return before_.nodes[static_cast<size_t>(layers_[l].node)]; }
  int64_t count() const { return static_cast<int64_t>(layers_.size()); }
  int64_t trips() const {
    const auto at = static_cast<size_t>(scan_attrs(scan(0)).carry_count);
    return before_.type(scan(0).operands[at]).shape[0];
  }

  /// What lies between layers is often read by nothing else.
  void find_needed(const std::vector<Node>& nodes, std::vector<size_t>* later) {
    needed_.assign(before_.values.size(), false);
    for (const ValueId v : before_.outputs) needed_[static_cast<size_t>(v)] = true;
    std::vector<size_t> kept;
    for (size_t i = later->size(); i-- > 0;) {
      const Node& node = nodes[(*later)[i]];
      if (std::ranges::none_of(node.results, [&](ValueId v) { return is_needed(v); })) continue;
      for (const ValueId v : node.operands) needed_[static_cast<size_t>(v)] = true;
      kept.push_back((*later)[i]);
    }
    std::ranges::reverse(kept);
    *later = std::move(kept);
  }
  bool is_needed(ValueId v) const { return needed_[static_cast<size_t>(v)]; }

  /// An operand of the new scan and the input of its region.
  struct Port {
    ValueId outside = kNoValue, inside = kNoValue;
  };

  void write() {
    body_ = std::make_shared<Graph>();
    origin_ = scan(0).origin;
    const int64_t all = trips() + count() - 1;
    std::vector<std::vector<Port>> carries(layers_.size()), slices(layers_.size()),
        captures(layers_.size());
    std::vector<Port> links(layers_.size()), active;
    std::vector<ValueId> operands;
    const auto add = [&](ValueId outside, TensorType type) {
      operands.push_back(outside);
      return Port{outside, body_->add_input("", std::move(type))};
    };
    for (size_t l = 0; l < layers_.size(); ++l) {
      for (int64_t c = 0; c < scan_attrs(scan(l)).carry_count; ++c) {
        const ValueId v = scan(l).operands[static_cast<size_t>(c)];
        carries[l].push_back(add(v, before_.type(v)));
      }
    }
    for (size_t l = 1; l < layers_.size(); ++l) {
      const TensorType type = step_type(before_.type(layers_[l].below));
      links[l] = add(zeros(type), type);
    }
    const size_t carried = operands.size();
    for (size_t l = 0; l < layers_.size(); ++l) {
      active.push_back(add(steps_of(static_cast<int64_t>(l), all), {DType::kBool, {}}));
      const ScanAttrs& attrs = scan_attrs(scan(l));
      for (int64_t i = 0; i < attrs.scanned_count; ++i) {
        const auto at = static_cast<size_t>(attrs.carry_count + i);
        slices[l].emplace_back();
        if (layers_[l].is_linked(at)) continue;
        const ValueId v = scan(l).operands[at];
        slices[l].back() = add(padded(v, static_cast<int64_t>(l)), step_type(before_.type(v)));
      }
    }
    const size_t scanned = operands.size() - carried;
    for (size_t l = 0; l < layers_.size(); ++l) {
      const ScanAttrs& attrs = scan_attrs(scan(l));
      for (auto i = static_cast<size_t>(attrs.carry_count + attrs.scanned_count);
           i < scan(l).operands.size(); ++i) {
        captures[l].push_back(capture(scan(l).operands[i], &operands));
      }
      for (const int32_t n : layers_[l].between) capture_statics(layers_[l], n, &operands);
    }
    write_body(carries, slices, captures, links, active);
    ScanAttrs attrs;
    attrs.carry_count = static_cast<int64_t>(carried);
    attrs.scanned_count = static_cast<int64_t>(scanned);
    attrs.x_reverse.assign(scanned, false);
    attrs.y_reverse.assign(stacked_.size(), false);
    const std::vector<ValueId> results =
        rebuild_.add_node(GraphOp::kScan, attrs, operands, {body_}, origin_);
    replace_results(results, carried);
  }

  static TensorType step_type(TensorType type) {
    type.shape.erase(type.shape.begin());
    return type;
  }

  ValueId zeros(const TensorType& type) {
    HostTensor value(type.dtype, type.shape);
    std::memset(value.mutable_raw(), 0, static_cast<size_t>(value.bytes()));
    return rebuild_.add_constant(std::move(value), origin_);
  }

  /// In which steps a layer is at work.
  ValueId steps_of(int64_t layer, int64_t all) {
    HostTensor value(DType::kBool, {all});
    for (int64_t t = 0; t < all; ++t) value.set_int(t, t >= layer && t < layer + trips() ? 1 : 0);
    return rebuild_.add_constant(std::move(value), origin_);
  }

  /// With the steps in front of and behind a layer's own.
  ValueId padded(ValueId v, int64_t layer) {
    TensorType type = before_.type(v);
    PadAttrs attrs{std::vector<int64_t>(type.shape.size(), 0),
                   std::vector<int64_t>(type.shape.size(), 0)};
    attrs.low[0] = layer;
    attrs.high[0] = count() - 1 - layer;
    const TensorType scalar{type.dtype, {}};
    return rebuild_.add(GraphOp::kPad, attrs, {v, zeros(scalar)}, origin_);
  }

  Port capture(ValueId v, std::vector<ValueId>* operands) {
    const auto known = captured_.find(v);
    if (known != captured_.end()) return {v, known->second};
    operands->push_back(v);
    const ValueId inside = body_->add_input("", before_.type(v));
    captured_[v] = inside;
    return {v, inside};
  }

  /// What a node between layers reads that is the same in each step; of a broadcast its operand.
  void capture_statics(const Layer& layer, int32_t n, std::vector<ValueId>* operands) {
    const Node& node = before_.nodes[static_cast<size_t>(n)];
    for (const ValueId v : node.operands) {
      if (layer.is_stepped(v)) continue;
      capture(node.op == GraphOp::kElementwise ? definition(v).operands[0] : v, operands);
    }
  }
  const Node& definition(ValueId v) const {
    const auto makes = [&](const Node& n) {
      return std::ranges::find(n.results, v) != n.results.end();
    };
    return *std::ranges::find_if(before_.nodes, makes);
  }

  void write_body(const std::vector<std::vector<Port>>& carries,
                  std::vector<std::vector<Port>>& slices,
                  const std::vector<std::vector<Port>>& captures, const std::vector<Port>& links,
                  const std::vector<Port>& active) {
    body_->origins = before_.origins;  // what nodes made here name
    GraphRebuilder inside(*body_);
    std::vector<ValueId> next, passed, stacked;
    for (size_t l = 0; l < layers_.size(); ++l) {
      std::vector<ValueId> arguments;
      for (const Port& p : carries[l]) arguments.push_back(p.inside);
      const std::map<ValueId, ValueId> made_between =
          l > 0 ? between(inside, l, links[l].inside) : std::map<ValueId, ValueId>();
      for (size_t i = 0; i < slices[l].size(); ++i) {
        ValueId v = slices[l][i].inside;
        if (v == kNoValue) {
          const ValueId operand = scan(l).operands[carries[l].size() + i];
          v = inside.add(GraphOp::kReshape, ReshapeAttrs{}, {made_between.at(operand)}, origin_,
                         step_type(before_.type(operand)));
        }
        arguments.push_back(v);
      }
      for (const Port& p : captures[l]) arguments.push_back(p.inside);
      const std::vector<ValueId> made =
          inside.add_region(*scan(l).regions[0], arguments, scan(l).origin);
      for (size_t c = 0; c < carries[l].size(); ++c)
        next.push_back(chosen(inside, active[l].inside, made[c], carries[l][c].inside));
      if (l + 1 < layers_.size()) passed.push_back(made[result_of(l, layers_[l + 1].below)]);
      for (size_t r = carries[l].size(); r < made.size(); ++r) {
        if (!is_needed(scan(l).results[r])) continue;
        stacked_.push_back({l, r});
        stacked.push_back(made[r]);
      }
    }
    for (const auto* outputs : {&next, &passed, &stacked}) {
      for (const ValueId v : *outputs) body_->add_output(v, "");
    }
    for (size_t o = 0; o < body_->outputs.size(); ++o)
      body_->output_names[o] = "out" + std::to_string(o);
    inside.finish();
  }

  size_t result_of(size_t l, ValueId v) const {
    return static_cast<size_t>(std::ranges::find(scan(l).results, v) - scan(l).results.begin());
  }

  ValueId chosen(GraphRebuilder& inside, ValueId condition, ValueId made, ValueId kept) const {
    const Shape& shape = inside.type(made).shape;
    const ValueId all = inside.add(GraphOp::kBroadcast, BroadcastAttrs{}, {condition}, origin_,
                                   {DType::kBool, shape});
    ElementwiseAttrs attrs;
    attrs.op = ScalarOp::kSelect;
    return inside.add(GraphOp::kElementwise, attrs, {all, made, kept}, origin_);
  }

  /// What lies between a layer and the one below it, by value outside, of one step: the steps' axis
  /// has one element.
  std::map<ValueId, ValueId> between(GraphRebuilder& inside, size_t l, ValueId link) {
    std::map<ValueId, ValueId> made;
    const auto of_step = [&](ValueId v) {
      TensorType type = before_.type(v);
      type.shape[static_cast<size_t>(layers_[l].axes.at(v))] = 1;
      return type;
    };
    const ValueId below = layers_[l].below;
    made[below] = inside.add(GraphOp::kReshape, ReshapeAttrs{}, {link}, origin_, of_step(below));
    for (const int32_t n : layers_[l].between) {
      const Node& node = before_.nodes[static_cast<size_t>(n)];
      const ValueId last = node.results[0];
      std::vector<ValueId> operands;
      for (const ValueId v : node.operands) {
        if (layers_[l].is_stepped(v)) {
          operands.push_back(made.at(v));
        } else if (node.op == GraphOp::kElementwise) {
          const Node& broadcast = definition(v);
          TensorType type = before_.type(v);
          type.shape = of_step(last).shape;
          operands.push_back(inside.add(broadcast.op, broadcast.attrs,
                                        {captured_.at(broadcast.operands[0])}, broadcast.origin,
                                        type));
        } else {
          operands.push_back(captured_.at(v));
        }
      }
      made[last] = inside.add(node.op, node.attrs, std::move(operands), node.origin, of_step(last));
    }
    return made;
  }

  void replace_results(const std::vector<ValueId>& results, size_t carried) {
    size_t next = 0;
    for (size_t l = 0; l < layers_.size(); ++l) {
      for (int64_t c = 0; c < scan_attrs(scan(l)).carry_count; ++c)
        rebuild_.replace_result(scan(l).results[static_cast<size_t>(c)], results[next++]);
    }
    for (size_t s = 0; s < stacked_.size(); ++s) {
      const auto [l, r] = stacked_[s];
      const ValueId v = results[carried + s];
      const TensorType type = before_.type(scan(l).results[r]);
      SliceAttrs attrs{std::vector<int64_t>(type.shape.size(), 0),
                       std::vector<int64_t>(type.shape.size(), 1)};
      attrs.start[0] = static_cast<int64_t>(l);
      rebuild_.replace_result(scan(l).results[r],
                              rebuild_.add(GraphOp::kSlice, attrs, {v}, origin_, type));
    }
  }

  const Graph before_;  ///< the graph as it was found
  const std::vector<Layer> layers_;
  GraphRebuilder rebuild_;
  std::shared_ptr<Graph> body_;
  std::map<ValueId, ValueId> captured_;             ///< by value outside: the region's input
  std::vector<std::pair<size_t, size_t>> stacked_;  ///< layers and results that the region stacks
  std::vector<bool> needed_;                        ///< by value: read outside of the layers
  int32_t origin_ = -1;
};

}  // namespace

bool skew_scans(Graph& graph) {
  bool changed = rewrite_regions(graph, skew_scans);
  for (;;) {
    std::vector<Layer> chain = Layers(graph).find();
    if (chain.empty()) return changed;
    Wavefront(graph, std::move(chain)).run();
    changed = true;
  }
}

}  // namespace weft
