#include "rewrite/hoist_invariants.h"

#include <algorithm>
#include <optional>

#include "rewrite/graph_rebuilder.h"

namespace weft {
namespace {

/// What is made of more captures stays: each value's are listed.
constexpr size_t kMostCaptures = 64;

int64_t bytes_of(const TensorType& type) {
  return checked_byte_size(type.dtype, type.shape).value_or(0);
}

/// Whether the result is more than the operands' elements elsewhere or in another type.
bool computes(const Node& node) {
  switch (node.op) {
    case GraphOp::kConcat:
    case GraphOp::kReduce:
    case GraphOp::kDotGeneral:
      return true;
    case GraphOp::kElementwise:
      return std::get<ElementwiseAttrs>(node.attrs).op != ScalarOp::kConvert;
    default:
      return false;
  }
}

/// Operations of which a value before the scan may be made.
bool has_form_outside(const Node& node) {
  switch (node.op) {
    case GraphOp::kBroadcast:
    case GraphOp::kConstant:
    case GraphOp::kElementwise:
    case GraphOp::kIota:
    case GraphOp::kReshape:
    case GraphOp::kSlice:
    case GraphOp::kTranspose:
      return true;
    default:
      return computes(node);
  }
}

/// Takes what is the same in each step out of one scan.
class InvariantHoister {
 public:
  InvariantHoister(GraphRebuilder& rebuild, Node& scan, int64_t least_bytes)
      : rebuild_(rebuild),
        scan_(scan),
        least_bytes_(least_bytes),
        attrs_(std::get<ScanAttrs>(scan.attrs)),
        body_(*scan.regions[0]),
        captures_(body_.values.size()),
        maker_(body_.values.size(), nullptr),
        outside_(body_.values.size(), kNoValue),
        taken_(body_.values.size(), false) {}

  bool run() {
    find_invariants();
    const std::vector<bool> live = find_live();
    if (std::ranges::find(taken_, true) == taken_.end()) return false;
    make_outside();
    rebuild_scan(live);
    return true;
  }

 private:
  size_t at(ValueId v) const { return static_cast<size_t>(v); }
  size_t stepped() const { return static_cast<size_t>(attrs_.carry_count + attrs_.scanned_count); }

  /// By value: the captures that it is made of, where it is the same in each step.
  void find_invariants() {
    for (size_t i = stepped(); i < body_.inputs.size(); ++i) {
      captures_[at(body_.inputs[i])] = {body_.inputs[i]};
      outside_[at(body_.inputs[i])] = scan_.operands[i];
    }
    for (const Node& node : body_.nodes) {
      for (const ValueId v : node.results) maker_[at(v)] = &node;
      if (node.results.size() != 1 || !has_form_outside(node)) continue;
      std::vector<ValueId> from;
      const bool same = std::ranges::all_of(node.operands, [&](ValueId v) {
        if (captures_[at(v)])
          from.insert(from.end(), captures_[at(v)]->begin(), captures_[at(v)]->end());
        return captures_[at(v)].has_value();
      });
      if (!same) continue;
      std::ranges::sort(from);
      from.erase(std::unique(from.begin(), from.end()), from.end());
      if (from.size() <= kMostCaptures) captures_[at(node.results[0])] = std::move(from);
    }
  }

  bool is_hoisted(ValueId v) const {
    if (!captures_[at(v)] || maker_[at(v)] == nullptr || !computes(*maker_[at(v)])) return false;
    int64_t read = 0;
    for (const ValueId capture : *captures_[at(v)]) read += bytes_of(body_.type(capture));
    const int64_t bytes = bytes_of(body_.type(v));
    return bytes >= least_bytes_ && bytes <= read;
  }

  /// By value: whether the region still needs it once hoisted values come in.
  std::vector<bool> find_live() {
    std::vector<bool> live(body_.values.size(), false);
    const auto need = [&](ValueId v) {
      live[at(v)] = true;
      if (is_hoisted(v)) taken_[at(v)] = true;
    };
    for (const ValueId v : body_.outputs) need(v);
    for (size_t n = body_.nodes.size(); n-- > 0;) {
      const Node& node = body_.nodes[n];
      const bool needed = std::ranges::any_of(
          node.results, [&](ValueId v) { return live[at(v)] && !taken_[at(v)]; });
      if (!needed) continue;
      for (const ValueId v : node.operands) need(v);
    }
    return live;
  }

  /// Makes what is taken in front of the scan, with what it is made of.
  void make_outside() {
    std::vector<bool> needed = taken_;
    for (size_t n = body_.nodes.size(); n-- > 0;) {
      const Node& node = body_.nodes[n];
      if (node.results.size() != 1 || !needed[at(node.results[0])]) continue;
      for (const ValueId v : node.operands) needed[at(v)] = true;
    }
    for (const Node& node : body_.nodes) {
      if (node.results.size() != 1 || !needed[at(node.results[0])]) continue;
      std::vector<ValueId> operands;
      for (const ValueId v : node.operands) operands.push_back(outside_[at(v)]);
      outside_[at(node.results[0])] = rebuild_.add(node.op, node.attrs, std::move(operands),
                                                   scan_.origin, body_.type(node.results[0]));
    }
  }

  void rebuild_scan(const std::vector<bool>& live) {
    auto body = std::make_shared<Graph>(body_);
    std::erase_if(body->nodes, [&](const Node& node) {
      return std::ranges::none_of(node.results,
                                  [&](ValueId v) { return live[at(v)] && !taken_[at(v)]; });
    });
    std::vector<ValueId> inputs, operands;
    for (size_t i = 0; i < body_.inputs.size(); ++i) {
      if (i >= stepped() && !live[at(body_.inputs[i])]) continue;
      inputs.push_back(body_.inputs[i]);
      operands.push_back(scan_.operands[i]);
    }
    for (const Node& node : body_.nodes) {
      for (const ValueId v : node.results) {
        if (!taken_[at(v)]) continue;
        inputs.push_back(v);
        operands.push_back(outside_[at(v)]);
      }
    }
    body->inputs = std::move(inputs);
    drop_unmade_values(*body);
    scan_.operands = std::move(operands);
    scan_.regions[0] = std::move(body);
  }

  GraphRebuilder& rebuild_;
  Node& scan_;
  const int64_t least_bytes_;
  const ScanAttrs attrs_;
  const Graph& body_;
  std::vector<std::optional<std::vector<ValueId>>> captures_;  ///< by the region's values
  std::vector<const Node*> maker_;                             ///< none for inputs
  std::vector<ValueId> outside_;                               ///< in front of the scan
  std::vector<bool> taken_;  ///< comes in as a capture from now on
};

}  // namespace

bool hoist_invariants(Graph& graph, int64_t least_bytes) {
  const bool regions_changed =
      rewrite_regions(graph, [&](Graph& region) { return hoist_invariants(region, least_bytes); });
  GraphRebuilder rebuild(graph);
  bool changed = false;
  for (Node& node : rebuild.take_nodes()) {
    rebuild.forward_operands(node);
    if (node.op == GraphOp::kScan && InvariantHoister(rebuild, node, least_bytes).run())
      changed = true;
    rebuild.keep(std::move(node));
  }
  const bool replaced = rebuild.finish();
  if (changed && !replaced) drop_unmade_values(graph);
  return changed || regions_changed;
}

}  // namespace weft
