#include "rewrite/split_scans.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "rewrite/graph_rebuilder.h"
#include "support/strong_components.h"

namespace weft {
namespace {

/// What the scans hand on to each other, at most.
constexpr int64_t kMostBytes = int64_t{1} << 28;

class ScanSplitter {
 public:
  ScanSplitter(GraphRebuilder& rebuild, const Node& scan)
      : rebuild_(rebuild),
        scan_(scan),
        attrs_(std::get<ScanAttrs>(scan.attrs)),
        body_(*scan.regions[0]),
        def_(body_.values.size(), kNone),
        input_(body_.values.size(), kNone) {}

  /// Whether scans have taken its place.
  bool run() {
    if (attrs_.scanned_count == 0 || attrs_.carry_count < 2) return false;
    trips_ = rebuild_.type(scan_.operands[carries()]).shape[0];
    note_definitions();
    note_invariants();
    if (!note_dependences() || !find_stages() || !note_handed_on()) return false;
    for (int stage = 1; stage <= stages_; ++stage) write(stage);
    rebuild_.replace(scan_, results_);
    return true;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  size_t carries() const { return static_cast<size_t>(attrs_.carry_count); }
  size_t scanned() const { return static_cast<size_t>(attrs_.scanned_count); }
  static size_t at(ValueId v) { return static_cast<size_t>(v); }
  bool is_carry(ValueId v) const { return input_[at(v)] < carries(); }

  void note_definitions() {
    for (size_t n = 0; n < body_.nodes.size(); ++n) {
      for (const ValueId v : body_.nodes[n].results) def_[at(v)] = n;
    }
    for (size_t i = 0; i < body_.inputs.size(); ++i) input_[at(body_.inputs[i])] = i;
  }

  /// Nodes that make the same in each step stand in each scan that reads them.
  void note_invariants() {
    invariant_.assign(body_.nodes.size(), false);
    for (size_t n = 0; n < body_.nodes.size(); ++n) {
      invariant_[n] = std::ranges::all_of(body_.nodes[n].operands, [&](ValueId v) {
        return def_[at(v)] == kNone ? input_[at(v)] >= carries() + scanned()
                                    : invariant_[def_[at(v)]];
      });
    }
  }

  /// Nodes of other steps count through the carries. False where a carry is no node's result.
  bool note_dependences() {
    reads_.resize(body_.nodes.size());
    for (size_t c = 0; c < carries(); ++c) {
      const size_t made = def_[at(body_.outputs[c])];
      if (made == kNone || invariant_[made]) return false;
    }
    for (size_t n = 0; n < body_.nodes.size(); ++n) {
      if (invariant_[n]) continue;
      for (const ValueId v : body_.nodes[n].operands) {
        const size_t made = is_carry(v) ? def_[at(body_.outputs[input_[at(v)]])] : def_[at(v)];
        if (made != kNone && !invariant_[made]) reads_[n].push_back(made);
      }
    }
    return true;
  }

  bool multiplies(size_t n) const {
    const Node& node = body_.nodes[n];
    return node.op == GraphOp::kDotGeneral || node.op == GraphOp::kConvolution;
  }

  /// A scan for each recurrence on the longest way through them; the others as late as what reads
  /// them allows, or with what they read. False where there is but one.
  bool find_stages() {
    const std::vector<std::vector<size_t>> components = strong_components(reads_);
    const size_t count = components.size();
    std::vector<size_t> component_of(reads_.size());
    for (size_t c = 0; c < count; ++c) {
      for (const size_t n : components[c]) component_of[n] = c;
    }
    std::vector<int> level(count, 0);
    std::vector<bool> recurs(count, false);
    std::vector<std::set<size_t>> readers(count);
    for (size_t c = 0; c < count; ++c) {
      bool depends_on_itself = false, has_product = false;
      for (const size_t n : components[c]) {
        has_product |= multiplies(n);
        for (const size_t m : reads_[n]) {
          const size_t other = component_of[m];
          depends_on_itself |= other == c;
          if (other == c) continue;
          level[c] = std::max(level[c], level[other]);
          readers[other].insert(c);
        }
      }
      recurs[c] = depends_on_itself && has_product;
      if (recurs[c]) stages_ = std::max(stages_, ++level[c]);
    }
    if (stages_ < 2) return false;
    stage_.assign(body_.nodes.size(), 0);
    std::vector<int> stage(count, 0);
    for (size_t c = count; c-- > 0;) {
      stage[c] = readers[c].empty() ? std::max(level[c], 1) : stages_;
      for (const size_t r : readers[c]) stage[c] = std::min(stage[c], stage[r]);
      if (recurs[c]) stage[c] = level[c];
      for (const size_t n : components[c]) stage_[n] = stage[c];
    }
    return true;
  }

  /// Where a value is made that differs from step to step; 0 for what each scan has.
  int stage_of(ValueId v) const {
    if (is_carry(v)) return stage_[def_[at(body_.outputs[input_[at(v)]])]];
    return def_[at(v)] == kNone || invariant_[def_[at(v)]] ? 0 : stage_[def_[at(v)]];
  }

  /// Values that later scans read. False where they are too large.
  bool note_handed_on() {
    int64_t bytes = 0;
    for (size_t n = 0; n < body_.nodes.size(); ++n) {
      if (invariant_[n]) continue;
      for (const ValueId v : body_.nodes[n].operands) {
        if (stage_of(v) == 0 || stage_of(v) == stage_[n] || !handed_on_.insert(v).second) continue;
        const TensorType& type = body_.type(v);
        bytes += checked_byte_size(type.dtype, type.shape).value_or(kMostBytes);
      }
    }
    return bytes <= kMostBytes / std::max<int64_t>(trips_, 1);
  }

  /// Nodes of one scan, and the values that they and its results read.
  std::set<ValueId> read_at(int stage, std::vector<bool>* nodes) const {
    std::set<ValueId> read;
    for (size_t o = 0; o < body_.outputs.size(); ++o) {
      if (stage_of_output(o) == stage) read.insert(body_.outputs[o]);
    }
    nodes->assign(body_.nodes.size(), false);
    for (size_t n = body_.nodes.size(); n-- > 0;) {
      const Node& node = body_.nodes[n];
      const bool is_read =
          std::ranges::any_of(node.results, [&](ValueId v) { return read.contains(v); });
      (*nodes)[n] = invariant_[n] ? is_read : stage_[n] == stage;
      if ((*nodes)[n]) read.insert(node.operands.begin(), node.operands.end());
    }
    return read;
  }

  /// What no step changes is stacked by the last.
  int stage_of_output(size_t o) const {
    const int stage = stage_of(body_.outputs[o]);
    return stage > 0 ? stage : stages_;
  }

  void write(int stage) {
    std::vector<bool> nodes;
    const std::set<ValueId> read = read_at(stage, &nodes);
    const auto body = std::make_shared<Graph>(body_);
    body->nodes.clear();
    body->inputs.clear();
    body->outputs.clear();
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n]) body->nodes.push_back(body_.nodes[n]);
    }
    ScanAttrs attrs;
    std::vector<ValueId> operands;
    const auto take = [&](ValueId inner, ValueId outer) {
      body->inputs.push_back(inner);
      operands.push_back(outer);
    };
    for (size_t c = 0; c < carries(); ++c) {
      if (stage_of_output(c) != stage) continue;
      take(body_.inputs[c], scan_.operands[c]);
      body->outputs.push_back(body_.outputs[c]);
      ++attrs.carry_count;
    }
    const auto scans = [&](ValueId inner, ValueId outer, bool reversed) {
      take(inner, outer);
      attrs.x_reverse.push_back(reversed);
    };
    for (size_t i = carries(); i < carries() + scanned(); ++i) {
      if (read.contains(body_.inputs[i]))
        scans(body_.inputs[i], scan_.operands[i], attrs_.x_reverse[i - carries()]);
    }
    for (const auto& [inner, outer] : stacked_) {
      if (read.contains(inner)) scans(inner, outer, false);
    }
    if (attrs.x_reverse.empty())  // the trips must be counted by something
      scans(body_.inputs[carries()], scan_.operands[carries()], attrs_.x_reverse[0]);
    attrs.scanned_count = static_cast<int64_t>(attrs.x_reverse.size());
    for (size_t i = carries() + scanned(); i < body_.inputs.size(); ++i) {
      if (read.contains(body_.inputs[i])) take(body_.inputs[i], scan_.operands[i]);
    }
    add_scan(stage, std::move(attrs), std::move(operands), body);
  }

  void add_scan(int stage, ScanAttrs attrs, std::vector<ValueId> operands,
                const std::shared_ptr<Graph>& body) {
    const auto stacks = [&](ValueId v, bool reversed) {
      body->outputs.push_back(v);
      attrs.y_reverse.push_back(reversed);
    };
    for (size_t o = carries(); o < body_.outputs.size(); ++o) {
      if (stage_of_output(o) == stage) stacks(body_.outputs[o], attrs_.y_reverse[o - carries()]);
    }
    std::vector<ValueId> handed_on;
    for (const ValueId v : handed_on_) {
      if (stage_of(v) != stage) continue;
      handed_on.push_back(v);
      stacks(v, false);
    }
    body->output_names.clear();
    for (size_t o = 0; o < body->outputs.size(); ++o)
      body->output_names.push_back("out" + std::to_string(o));
    drop_unmade_values(*body);
    const std::vector<ValueId> made = rebuild_.add_node(GraphOp::kScan, std::move(attrs),
                                                        std::move(operands), {body}, scan_.origin);
    size_t next = 0;
    results_.resize(body_.outputs.size(), kNoValue);
    for (size_t o = 0; o < body_.outputs.size(); ++o) {
      if (stage_of_output(o) == stage) results_[o] = made[next++];
    }
    for (const ValueId v : handed_on) stacked_[v] = made[next++];
  }

  GraphRebuilder& rebuild_;
  const Node& scan_;
  const ScanAttrs& attrs_;
  const Graph& body_;
  std::vector<size_t> def_;                 ///< by the body's values: the node that makes it
  std::vector<size_t> input_;               ///< by the body's values: its number among the inputs
  std::vector<bool> invariant_;             ///< by node
  std::vector<std::vector<size_t>> reads_;  ///< by node that differs from step to step
  std::vector<int> stage_;                  ///< by node: the scan that has it, from 1 on
  int stages_ = 0;
  int64_t trips_ = 1;
  std::set<ValueId> handed_on_;
  std::map<ValueId, ValueId> stacked_;  ///< of these, by the value in the body: all steps'
  std::vector<ValueId> results_;
};

}  // namespace

bool split_scans(Graph& graph) {
  const bool regions_changed = rewrite_regions(graph, split_scans);
  GraphRebuilder rebuild(graph);
  for (Node& node : rebuild.take_nodes()) {
    rebuild.forward_operands(node);
    if (node.op == GraphOp::kScan && ScanSplitter(rebuild, node).run()) continue;
    rebuild.keep(std::move(node));
  }
  return rebuild.finish() || regions_changed;
}

}  // namespace weft
