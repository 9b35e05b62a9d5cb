#include "rewrite/hoist_from_scans.h"

#include <algorithm>
#include <optional>

#include "rewrite/graph_rebuilder.h"

namespace weft {
namespace {

/// What hoisting may put into memory for one scan.
constexpr int64_t kMaxBytes = int64_t{1} << 28;

std::vector<int64_t> shifted(std::vector<int64_t> axes) {
  for (int64_t& axis : axes) ++axis;
  return axes;
}

std::vector<int64_t> behind(int64_t first, std::vector<int64_t> rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

bool is_contraction(const Node& node) { return node.op == GraphOp::kDotGeneral; }

/// Operations that have a form with an axis more, see ScanHoister::batched.
bool has_batched_form(const Node& node) {
  switch (node.op) {
    case GraphOp::kElementwise:
    case GraphOp::kReshape:
    case GraphOp::kTranspose:
    case GraphOp::kSlice:
    case GraphOp::kConcat:
    case GraphOp::kBroadcast:
    case GraphOp::kReduce:
    case GraphOp::kDotGeneral:
      return true;
    default:
      return false;
  }
}

/// Takes what depends on no carry out of one scan.
class ScanHoister {
 public:
  ScanHoister(GraphRebuilder& rebuild, Node& scan)
      : rebuild_(rebuild),
        scan_(scan),
        attrs_(std::get<ScanAttrs>(scan.attrs)),
        body_(*scan.regions[0]),
        kinds_(body_.values.size(), Kind::kCarried),
        outside_(body_.values.size(), kNoValue) {}

  bool run() {
    trips_ = rebuild_.type(scan_.operands[static_cast<size_t>(attrs_.carry_count)]).shape[0];
    // What runs backwards is stacked backwards: one direction at a time.
    for (bool reversed : {false, true}) {
      classify(reversed);
      if (!choose()) continue;
      hoist();
      rebuild_scan(reversed);
      return true;
    }
    return false;
  }

 private:
  enum class Kind : uint8_t {
    kCarried,    ///< depends on a carry, or has no form outside
    kInvariant,  ///< the same in each step
    kStepped,    ///< its own in each step, known before the first
  };

  size_t carries() const { return static_cast<size_t>(attrs_.carry_count); }
  size_t scanned() const { return static_cast<size_t>(attrs_.scanned_count); }
  Kind& kind(ValueId v) { return kinds_[static_cast<size_t>(v)]; }

  void classify(bool reversed) {
    std::ranges::fill(kinds_, Kind::kCarried);
    std::ranges::fill(outside_, kNoValue);
    for (size_t i = carries(); i < body_.inputs.size(); ++i) {
      const bool is_scanned = i < carries() + scanned();
      if (is_scanned && attrs_.x_reverse[i - carries()] != reversed) continue;
      kind(body_.inputs[i]) = is_scanned ? Kind::kStepped : Kind::kInvariant;
      outside_[static_cast<size_t>(body_.inputs[i])] = scan_.operands[i];
    }
    for (const Node& node : body_.nodes) {
      if (node.results.size() != 1 || !node.regions.empty()) continue;
      kind(node.results[0]) = kind_of(node);
    }
  }

  Kind kind_of(const Node& node) {
    const auto is = [&](Kind k) { return [this, k](ValueId v) { return kind(v) == k; }; };
    if (std::ranges::any_of(node.operands, is(Kind::kCarried))) return Kind::kCarried;
    if (std::ranges::none_of(node.operands, is(Kind::kStepped))) return Kind::kInvariant;
    return has_batched_form(node) || gathers_by_step(node) ? Kind::kStepped : Kind::kCarried;
  }

  /// Rows of what is the same in each step: those of all steps lie one behind the other.
  bool gathers_by_step(const Node& node) {
    if (node.op != GraphOp::kGather) return false;
    const auto& attrs = std::get<GatherAttrs>(node.attrs);
    return attrs.axis == 0 && attrs.batch_dims == 0 && kind(node.operands[0]) == Kind::kInvariant;
  }

  /// Contractions known before the first step, what they read, and the arithmetic that ends them.
  bool choose() {
    chosen_.assign(body_.nodes.size(), false);
    std::vector<bool> needed(body_.values.size()), made(body_.values.size());
    int64_t bytes = 0;
    for (size_t n = body_.nodes.size(); n-- > 0;) {
      const Node& node = body_.nodes[n];
      if (node.results.size() != 1) continue;
      const ValueId v = node.results[0];
      const bool starts = is_contraction(node) && kind(v) == Kind::kStepped;
      if (!starts && !needed[static_cast<size_t>(v)]) continue;
      chosen_[n] = true;
      for (ValueId operand : node.operands) needed[static_cast<size_t>(operand)] = true;
    }
    for (size_t n = 0; n < body_.nodes.size(); ++n) {
      const Node& node = body_.nodes[n];
      if (node.results.size() != 1) continue;
      const auto is_made = [&](ValueId v) { return made[static_cast<size_t>(v)]; };
      const bool ends = node.op == GraphOp::kElementwise &&
                        kind(node.results[0]) == Kind::kStepped &&
                        std::ranges::any_of(node.operands, is_made);
      if (!chosen_[n] && ends) choose_with_operands(n);
      const bool steps = kind(node.results[0]) == Kind::kStepped;
      made[static_cast<size_t>(node.results[0])] = chosen_[n] && steps;
      if (chosen_[n] && steps) {
        const TensorType& type = body_.type(node.results[0]);
        bytes += checked_byte_size(type.dtype, type.shape).value_or(kMaxBytes);
      }
    }
    return std::ranges::find(chosen_, true) != chosen_.end() && bytes <= kMaxBytes / trips();
  }

  int64_t trips() const { return std::max<int64_t>(trips_, 1); }

  void choose_with_operands(size_t n) {
    std::vector<bool> needed(body_.values.size());
    chosen_[n] = true;
    for (ValueId v : body_.nodes[n].operands) needed[static_cast<size_t>(v)] = true;
    for (size_t m = n; m-- > 0;) {
      const Node& node = body_.nodes[m];
      if (node.results.size() != 1 || !needed[static_cast<size_t>(node.results[0])]) continue;
      chosen_[m] = true;
      for (ValueId v : node.operands) needed[static_cast<size_t>(v)] = true;
    }
  }

  void hoist() {
    for (size_t n = 0; n < body_.nodes.size(); ++n) {
      if (!chosen_[n]) continue;
      const Node& node = body_.nodes[n];
      const ValueId v = node.results[0];
      outside_[static_cast<size_t>(v)] =
          kind(v) == Kind::kStepped ? batched(node) : as_it_stands(node, body_.type(v));
    }
  }

  /// On what its operands are outside.
  ValueId as_it_stands(const Node& node, const TensorType& type) {
    std::vector<ValueId> operands;
    for (ValueId v : node.operands) operands.push_back(outside_[static_cast<size_t>(v)]);
    return rebuild_.add(node.op, node.attrs, std::move(operands), scan_.origin, type);
  }

  TensorType batched_type(ValueId v) const {
    TensorType type = body_.type(v);
    type.shape.insert(type.shape.begin(), trips_);
    return type;
  }

  /// The operand with the steps' axis in front.
  ValueId stepped(ValueId v) {
    const ValueId here = outside_[static_cast<size_t>(v)];
    if (kind(v) == Kind::kStepped) return here;
    BroadcastAttrs attrs;
    for (size_t i = 0; i < body_.type(v).shape.size(); ++i) {
      attrs.dims.push_back(static_cast<int64_t>(i) + 1);
    }
    return rebuild_.add(GraphOp::kBroadcast, attrs, {here}, scan_.origin, batched_type(v));
  }

  ValueId batched(const Node& node) {
    if (node.op == GraphOp::kDotGeneral) return batched_dot(node);
    if (node.op == GraphOp::kGather) return as_it_stands(node, batched_type(node.results[0]));
    Attributes attrs = node.attrs;
    if (auto* transpose = std::get_if<TransposeAttrs>(&attrs)) {
      transpose->permutation = behind(0, shifted(transpose->permutation));
    } else if (auto* slice = std::get_if<SliceAttrs>(&attrs)) {
      *slice = {behind(0, slice->start), behind(1, slice->step)};
    } else if (auto* concat = std::get_if<ConcatAttrs>(&attrs)) {
      ++concat->axis;
    } else if (auto* broadcast = std::get_if<BroadcastAttrs>(&attrs)) {
      broadcast->dims = behind(0, shifted(broadcast->dims));
    } else if (auto* reduce = std::get_if<ReduceAttrs>(&attrs)) {
      reduce->axes = shifted(reduce->axes);
    }
    std::vector<ValueId> operands;
    for (ValueId v : node.operands) operands.push_back(stepped(v));
    return rebuild_.add(node.op, std::move(attrs), std::move(operands), scan_.origin,
                        batched_type(node.results[0]));
  }

  /// Steps are a batch axis where both factors have them, else rows (or columns) of one product.
  ValueId batched_dot(const Node& node) {
    DotAttrs attrs = std::get<DotAttrs>(node.attrs);
    const bool left = kind(node.operands[0]) == Kind::kStepped;
    const bool right = kind(node.operands[1]) == Kind::kStepped;
    if (left) attrs.lhs_batch = shifted(attrs.lhs_batch);
    if (left) attrs.lhs_contract = shifted(attrs.lhs_contract);
    if (right) attrs.rhs_batch = shifted(attrs.rhs_batch);
    if (right) attrs.rhs_contract = shifted(attrs.rhs_contract);
    const auto batch = static_cast<int64_t>(attrs.lhs_batch.size());
    // The steps' place among the result's axes: batch axes, free axes of the left, of the right.
    int64_t place = batch;
    if (left && right) {
      attrs.lhs_batch = behind(0, attrs.lhs_batch);
      attrs.rhs_batch = behind(0, attrs.rhs_batch);
      place = 0;
    } else if (right) {
      const auto rank = static_cast<int64_t>(body_.type(node.operands[0]).shape.size());
      place = rank - static_cast<int64_t>(attrs.lhs_contract.size());
    }
    TensorType type = batched_type(node.results[0]);
    std::rotate(type.shape.begin(), type.shape.begin() + 1, type.shape.begin() + place + 1);
    ValueId v = rebuild_.add(GraphOp::kDotGeneral, std::move(attrs),
                             {outside_[static_cast<size_t>(node.operands[0])],
                              outside_[static_cast<size_t>(node.operands[1])]},
                             scan_.origin, type);
    if (place == 0) return v;
    TransposeAttrs to_front{{place}};
    for (int64_t i = 0; i < static_cast<int64_t>(type.shape.size()); ++i) {
      if (i != place) to_front.permutation.push_back(i);
    }
    return rebuild_.add(GraphOp::kTranspose, to_front, {v}, scan_.origin);
  }

  /// The region without what went out, whose values come in: those of each step are scanned.
  void rebuild_scan(bool reversed) {
    auto body = std::make_shared<Graph>(body_);
    std::vector<Node> kept;
    std::vector<bool> read(body->values.size());
    for (size_t n = 0; n < body->nodes.size(); ++n) {
      if (chosen_[n] && !is_invariant(body->nodes[n])) continue;
      for (ValueId v : body->nodes[n].operands) read[static_cast<size_t>(v)] = true;
      kept.push_back(std::move(body->nodes[n]));
    }
    for (ValueId v : body->outputs) read[static_cast<size_t>(v)] = true;
    body->nodes = std::move(kept);
    std::vector<ValueId> inputs(body->inputs.begin(), body->inputs.begin() + attrs_.carry_count);
    std::vector<ValueId> operands(scan_.operands.begin(),
                                  scan_.operands.begin() + attrs_.carry_count);
    std::vector<bool> x_reverse;
    const auto take = [&](ValueId inner, ValueId outer) {
      inputs.push_back(inner);
      operands.push_back(outer);
    };
    for (size_t i = 0; i < scanned(); ++i) {
      const ValueId inner = body->inputs[carries() + i];
      if (!read[static_cast<size_t>(inner)]) continue;
      take(inner, scan_.operands[carries() + i]);
      x_reverse.push_back(attrs_.x_reverse[i]);
    }
    for (size_t n = 0; n < body_.nodes.size(); ++n) {
      if (!chosen_[n] || is_invariant(body_.nodes[n])) continue;
      const ValueId v = body_.nodes[n].results[0];
      if (!read[static_cast<size_t>(v)]) continue;
      take(v, outside_[static_cast<size_t>(v)]);
      x_reverse.push_back(reversed);
    }
    if (x_reverse.empty()) {  // the trips must be counted by something
      take(body->inputs[carries()], scan_.operands[carries()]);
      x_reverse.push_back(attrs_.x_reverse[0]);
    }
    attrs_.scanned_count = static_cast<int64_t>(x_reverse.size());
    for (size_t i = carries() + scanned_before_; i < body->inputs.size(); ++i) {
      take(body->inputs[i], scan_.operands[i]);
    }
    attrs_.x_reverse = std::move(x_reverse);
    body->inputs = std::move(inputs);
    drop_unmade_values(*body);
    scan_.operands = std::move(operands);
    scan_.attrs = attrs_;
    scan_.regions[0] = std::move(body);
  }

  /// What is the same in each step stays in the region as well: it is cheap there, and read there.
  bool is_invariant(const Node& node) { return kind(node.results[0]) != Kind::kStepped; }

  GraphRebuilder& rebuild_;
  Node& scan_;
  ScanAttrs attrs_;
  const Graph& body_;
  std::vector<Kind> kinds_;       ///< of the region's values
  std::vector<ValueId> outside_;  ///< the value outside of what was hoisted, and of inputs
  std::vector<bool> chosen_;      ///< of the region's nodes
  int64_t trips_ = 1;
  size_t scanned_before_ = static_cast<size_t>(attrs_.scanned_count);
};

}  // namespace

bool hoist_from_scans(Graph& graph) {
  const bool regions_changed = rewrite_regions(graph, hoist_from_scans);
  GraphRebuilder rebuild(graph);
  bool changed = false;
  for (Node& node : rebuild.take_nodes()) {
    rebuild.forward_operands(node);
    if (node.op == GraphOp::kScan && ScanHoister(rebuild, node).run()) changed = true;
    rebuild.keep(std::move(node));
  }
  const bool replaced = rebuild.finish();
  if (changed && !replaced) drop_unmade_values(graph);
  return changed || regions_changed;
}

}  // namespace weft
