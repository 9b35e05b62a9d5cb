#include <algorithm>
#include <optional>

#include "cost/delta.h"
#include "fmt/format.h"
#include "plan/generators/pattern_reduction.h"
#include "plan/generators/subgraphs.h"
#include "plan/planners/partitions.h"
#include "plan/planners/stitching_rule.h"
#include "plan/selectors/beam_search.h"
#include "plan/selectors/merge_patterns.h"

namespace weft {

namespace {

class Dp {
 public:
  explicit Dp(const PlanningTask& task)
      : program_(task.program),
        top_(static_cast<size_t>(task.parameters.top)),
        beam_(static_cast<size_t>(task.parameters.beam)),
        subgraphs_(task.parameters.subgraphs != 0),
        priced_(priced_launches(task)),
        delta_(task.program, priced_),
        known_(task.known),
        times_(task.program, task.target, task.known) {
    patterns_.legal = [this, leaves = task.kinds.leaf](const Group& merged) {
      return leaves ? known_.can_be_leaf(merged) : Decision::forbid("leaves are not tried");
    };
    patterns_.gain = [this](const std::vector<Group>& parts, const Group& merged) {
      return gain_us(parts, merged);
    };
    patterns_.most_expressions = static_cast<size_t>(task.parameters.expressions);
    rule_ = stitching_rule(task, times_);
    if (!task.kinds.leaf) return;
    rule_.merges_more = [this](FusionGraph& graph) {
      merge_remote(program_, patterns_, top_, graph);
    };
  }

  Partition run() {
    const FusionGraph graph(program_);
    std::optional<Partition> best;
    double best_us = 0;
    const auto weigh = [&](const std::vector<std::vector<Pattern>>& candidates, double most) {
      for (const std::vector<Pattern>& patterns : beam_search(candidates, beam_)) {
        Partition partition = partition_of(patterns, graph);
        double us = 0;
        for (const Group& group : partition.groups) us += times_.latency(group);
        if (best && us >= best_us * most) continue;
        best_us = us;
        best = std::move(partition);
      }
    };
    std::vector<std::vector<Pattern>> candidates = reduce_patterns(graph, patterns_, top_);
    weigh(candidates, 1);
    // What closer predictions say is lost on what kernels do for each other later: shared launches.
    constexpr double kClearlyLess = 0.97;
    if (subgraphs_ && add_subgraphs(graph, candidates)) weigh(candidates, kClearlyLess);
    return std::move(*best);
  }

 private:
  /// Whether breadth-first search finds any that are none of the candidates.
  bool add_subgraphs(const FusionGraph& graph,
                     std::vector<std::vector<Pattern>>& candidates) const {
    bool added = false;
    std::vector<std::vector<Pattern>> found = find_subgraphs(program_, graph, patterns_);
    for (size_t first = 0; first < found.size(); ++first) {
      for (Pattern& p : found[first]) {
        if (std::ranges::find(candidates[first], p.groups, &Pattern::groups) !=
            candidates[first].end())
          continue;
        candidates[first].push_back(std::move(p));
        added = true;
      }
    }
    return added;
  }

  /// The models of products see what the terms of `delta` do not.
  double gain_us(const std::vector<Group>& parts, const Group& merged) {
    const bool has_product = std::ranges::any_of(merged.exprs, [&](ExprId e) {
      return program_.exprs[static_cast<size_t>(e)].is_contraction;
    });
    if (has_product) return times_.saved(parts, merged).microseconds;
    double gain = delta_.delta(merged.exprs, merged.outputs).gain_us();
    for (const Group& part : parts) {
      if (part.exprs.size() > 1) gain -= delta_.delta(part.exprs, part.outputs).gain_us();
    }
    return gain;
  }

  /// The patterns, and what merges between them.
  Partition partition_of(const std::vector<Pattern>& patterns, FusionGraph graph) {
    std::vector<Pattern> merged = merge_patterns(patterns, graph);
    for (Pattern& p : merged) p.because = because(graph.group(graph.group_of(p.groups[0])));
    return merge_greedily(program_, rule_, std::move(graph), merged);
  }

  std::string because(const Group& group) const {
    const Delta d = delta_.delta(group.exprs, group.outputs);
    return fmt::format(
        "one of {} expressions that save {:.1f} us of memory traffic and {:.1f} us of launches "
        "for {:.1f} us",
        group.exprs.size(), d.memory_us, d.calls_us, d.penalty_us);
  }

  const TensorProgram& program_;
  const size_t top_, beam_;
  const bool subgraphs_;
  const Target priced_;
  DeltaEvaluator delta_;
  KnownGroups& known_;
  KernelTimes times_;
  PatternRule patterns_;
  FusionRule rule_;
};

}  // namespace

/// Approximate dynamic programming over patterns (FusionStitching 2021 §5): the candidates of each
/// expression by the reduction of patterns and `delta`, and subgraphs by breadth-first search
///, sets of them by a beam, what is left along
/// edges and by remote fusion; of the beam's sets the one whose kernels, as they are built, have
/// the least latency.
Result<Partition> partition_dp(const PlanningTask& task) { return Dp(task).run(); }

}  // namespace weft
