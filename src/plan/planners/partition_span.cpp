#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "expr/analysis/dependence.h"
#include "fmt/format.h"
#include "plan/generators/layers.h"
#include "plan/planners/partitions.h"
#include "plan/planners/stitching_rule.h"

namespace weft {

namespace {

/// The layers of the expressions alone that hold library calls: nothing merges across them.
class Roofs {
 public:
  explicit Roofs(const PlanningTask& task, const FusionGraph& graph)
      : task_(task), spans_(spans_of(graph)), step_of_(task.program.exprs.size()) {
    const std::vector<std::vector<int>> layers = layers_of(spans_);
    for (const std::vector<int>& layer : layers) {
      int call = -1;
      for (const int s : layer) {
        const TensorProgram::Step& step = task.program.steps[static_cast<size_t>(s)];
        if (step.opaque) continue;
        step_of_[static_cast<size_t>(step.index)] = s;
        if (call < 0 && is_call(step.index)) call = s;
      }
      calls_.push_back(call);
      up_to_.push_back((up_to_.empty() ? 0 : up_to_.back()) + (call < 0 ? 0 : 1));
    }
  }

  /// The spans of a group's expressions, the least and the largest.
  std::pair<int, int> spans(const Group& group) const {
    std::pair<int, int> out{static_cast<int>(calls_.size()), -1};
    for (const ExprId e : group.exprs) {
      const int span = spans_[static_cast<size_t>(step_of_[static_cast<size_t>(e)])];
      out = {std::min(out.first, span), std::max(out.second, span)};
    }
    return out;
  }

  Decision allows(const Group& merged) const {
    for (const ExprId e : merged.exprs) {
      if (is_call(e) && !is_one_call(merged))
        return Decision::forbid(name_of(e) + " is a library call");
    }
    const auto [first, last] = spans(merged);
    if (up_to(first) == up_to(last) || is_one_call(merged)) return Decision::allow();
    const int roof = next(first);
    return Decision::forbid(fmt::format("the library call {} is a roof between them, in layer {}",
                                        name_of_step(calls_[static_cast<size_t>(roof)]), roof));
  }

  /// Why the expressions of a group were merged.
  std::string because(const Group& group) const {
    const auto [first, last] = spans(group);
    std::string out =
        fmt::format("in layers {} to {} of a critical path of {}", first, last, calls_.size());
    const int roof = next(last);
    if (roof < 0) return out;
    return out + fmt::format(" below the library call {} in layer {}",
                             name_of_step(calls_[static_cast<size_t>(roof)]), roof);
  }

 private:
  /// A product that a library takes, or that counts as such.
  bool is_call(ExprId e) const {
    const TensorExpr& expr = task_.program.exprs[static_cast<size_t>(e)];
    if (!expr.is_contraction || expr.reduce_extents.empty()) return false;
    return task_.known.compute_as_calls() || flops_of(expr) >= task_.parameters.call_flops ||
           is_one_call(Group{.exprs = {e}, .outputs = {expr.output}});
  }
  /// Whether a library takes all of it.
  bool is_one_call(const Group& group) const {
    return !task_.target.libraries.empty() && task_.known.library_us(group).has_value();
  }
  int up_to(int span) const { return up_to_[static_cast<size_t>(span)]; }
  /// The first roof above a span; -1: none.
  int next(int span) const {
    const auto above = std::ranges::upper_bound(up_to_, up_to(span));
    return above == up_to_.end() ? -1 : static_cast<int>(above - up_to_.begin());
  }
  const std::string& name_of(ExprId e) const {
    const TensorId made = task_.program.exprs[static_cast<size_t>(e)].output;
    return task_.program.tensors[static_cast<size_t>(made)].name;
  }
  const std::string& name_of_step(int step) const {
    return name_of(task_.program.steps[static_cast<size_t>(step)].index);
  }

  const PlanningTask& task_;
  const std::vector<int> spans_;  ///< by step
  std::vector<int> step_of_;      ///< by expression
  std::vector<int> calls_;        ///< by layer a step that is a call; -1: none
  std::vector<int> up_to_;        ///< by layer those of it and below that hold calls
};

class SpanFusion {
 public:
  explicit SpanFusion(const PlanningTask& task)
      : task_(task),
        times_(task.program, task.target, task.known),
        cost_(task.program, task.target),
        graph_(task.program),
        roofs_(task, graph_),
        rule_(stitching_rule(task, times_)) {
    keep_below_roofs();
  }

  Partition run() {
    for (int64_t round = 0; round < task_.parameters.rounds && fuse_layers(); ++round) {
    }
    std::vector<Pattern> patterns;
    for (const int g : graph_.ids()) {
      if (graph_.steps(g).size() > 1)
        patterns.push_back({graph_.steps(g), 0, roofs_.because(graph_.group(g))});
    }
    return merge_greedily(task_.program, rule_, std::move(graph_), patterns);
  }

 private:
  void keep_below_roofs() {
    const auto below = [this](auto legal) {
      return [this, legal](const Group& merged) {
        const Decision roof = roofs_.allows(merged);
        return roof ? legal(merged) : roof;
      };
    };
    rule_.legal = below(rule_.legal);
    if (rule_.legal_beside) rule_.legal_beside = below(rule_.legal_beside);
    if (!rule_.composes) return;
    rule_.composes = [this, composes = rule_.composes](const Group& a, const Group& b,
                                                       const Group& merged) {
      const Decision roof = roofs_.allows(merged);
      return roof ? composes(a, b, merged) : roof;
    };
  }

  /// Over the layers once, from the results on; whether anything merged.
  bool fuse_layers() {
    spans_ = spans_of(graph_);
    taken_.assign(spans_.size(), false);
    merged_ = false;
    for (std::vector<int> layer : layers_of(spans_)) {
      std::erase_if(layer, [&](int g) { return is_gone(g) || graph_.is_opaque(g); });
      pack_elementwise(layer);
      for (const int root : layer) fuse_below_roof(root);
    }
    return merged_;
  }

  /// Whether a group became part of another one in this round.
  bool is_gone(int g) const { return taken_[static_cast<size_t>(g)] || graph_.steps(g).empty(); }

  /// ElementwiseFusion (§3.2): what is element-wise in the layer, by shape, as far as footprint and
  /// number of outputs allow and common axes hold it. `layer` is then without what joined.
  void pack_elementwise(std::vector<int>& layer) {
    std::map<Shape, std::vector<int>> packs;
    std::vector<int> left;
    for (const int g : layer) {
      const Group group = graph_.group(g);
      if (!is_elementwise(group)) {
        left.push_back(g);
        continue;
      }
      std::vector<int>& like =
          packs[task_.program.exprs[static_cast<size_t>(group.exprs.back())].extents];
      if (!like.empty() && fits_pack(graph_.merged(like.back(), g)) && joins(like.back(), g)) {
        like.back() = merge(like.back(), g);
        continue;
      }
      like.push_back(g);
    }
    for (const auto& [shape, groups] : packs) left.insert(left.end(), groups.begin(), groups.end());
    std::ranges::sort(left);
    layer = std::move(left);
  }

  bool is_elementwise(const Group& group) const {
    return std::ranges::all_of(group.exprs, [&](ExprId e) {
      return task_.program.exprs[static_cast<size_t>(e)].reduce_extents.empty();
    });
  }

  bool fits_pack(const Group& merged) const {
    const Estimate cost = cost_.estimate(merged.exprs, merged.outputs);
    return cost.bytes_read + cost.bytes_written <= task_.parameters.footprint &&
           std::ssize(merged.outputs) <= task_.parameters.outputs;
  }

  /// Algorithm 1: groups above the root, layer by layer, of which one reads in what was fused, and
  /// none in what was given up. What no member reads was given up, too, and is not looked at.
  void fuse_below_roof(int root) {
    const int layer = spans_[static_cast<size_t>(root)];
    std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> next;
    std::vector<int> met;
    const auto reach = [&](int group) {
      for (const int p : graph_.producers(group)) {
        const int span = spans_[static_cast<size_t>(p)];
        if (span > layer && std::ranges::find(met, p) == met.end()) {
          met.push_back(p);
          next.emplace(span, p);
        }
      }
    };
    reach(root);
    while (!next.empty()) {
      const int g = next.top().second;
      next.pop();
      if (is_gone(g) || graph_.is_opaque(g)) continue;
      const bool was_given_up = std::ranges::any_of(graph_.consumers(g), [&](int reader) {
        return reader != root && spans_[static_cast<size_t>(reader)] > layer;
      });
      if (was_given_up || !joins(g, root)) continue;
      root = merge(g, root);
      spans_[static_cast<size_t>(root)] = layer;
      reach(root);
    }
    taken_[static_cast<size_t>(root)] = true;
  }

  /// SchdConsistent's last question: whether one kernel holds both and pays.
  bool joins(int a, int b) {
    const Group merged = graph_.merged(a, b);
    if (!rule_.legal(merged) && !rule_.composes) return false;
    if (!graph_.is_convex(std::array{a, b})) return false;
    const Group of_a = graph_.group(a), of_b = graph_.group(b);
    if (rule_.legal(merged) && rule_.profitable(of_a, of_b, merged)) return true;
    return rule_.composes && rule_.composes(of_a, of_b, merged);
  }

  int merge(int a, int b) {
    merged_ = true;
    return graph_.merge(a, b);
  }

  const PlanningTask& task_;
  KernelTimes times_;
  CostModel cost_;
  FusionGraph graph_;
  Roofs roofs_;
  FusionRule rule_;
  std::vector<int> spans_;   ///< by group, of this round; of a union that of its root
  std::vector<bool> taken_;  ///< by group: a root of this round, with what it holds
  bool merged_ = false;
};

}  // namespace

/// Layers of the critical path (FusionStitching 2018 §3): from the results to the inputs, what is
/// element-wise in a layer is packed, then each group of the layer takes what it depends on, up to
/// the next layer with a library call; again until nothing merges. What is left along edges merges
/// as in greedy, below the same roofs.
Result<Partition> partition_span(const PlanningTask& task) { return SpanFusion(task).run(); }

}  // namespace weft
