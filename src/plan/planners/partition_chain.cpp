#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "cost/memory_bound.h"
#include "fmt/format.h"
#include "plan/generators/chains.h"
#include "plan/planners/partitions.h"
#include "plan/planners/stitching_rule.h"
#include "support/for_each_in_parallel.h"

namespace weft {

namespace {

int64_t bytes_of(const TensorProgram& program, TensorId tensor) {
  const TensorType& type = program.tensors[static_cast<size_t>(tensor)].type;
  return checked_byte_size(type.dtype, type.shape).value_or(INT64_MAX);
}

/// Predictions this close, as a share, are not told apart: then what keeps less memory is taken.
constexpr double kAlike = 0.02;

/// Chains that meet, of which all sets are looked at.
constexpr size_t kMostTogether = 12;

/// Which chains become kernels.
struct ChainRule {
  /// That greedy's kernels of a chain's expressions hand each other, at least.
  int64_t least_bytes = 0;
  /// From these on a chain is taken that is predicted to take as long.
  int64_t alike_bytes = 0;
  /// Those of contractions that memory bounds, whatever is predicted (MCFuser §II-A, §V-B); else
  /// those that are predicted to be quicker.
  bool memory_bound = false;
};

/// Chains in the place of what greedy makes of their expressions; none that meet.
class ChainSelection {
 public:
  ChainSelection(const PlanningTask& task, ChainRule rule)
      : task_(task),
        chain_rule_(rule),
        times_(task.program, task.target, task.known),
        rule_(stitching_rule(task, times_)),
        graph_(task.program),
        keys_(task.program) {}

  Result<Partition> run() {
    Partition apart = merge_greedily(task_.program, rule_);
    if (task_.known.compute_as_calls()) return apart;
    for (const Group& g : apart.groups) {
      for (const ExprId e : g.exprs) group_of_[e] = &g;
    }
    std::vector<std::pair<std::vector<int>, Group>> chains;
    for (std::vector<int>& chain : chains_of(task_.program, graph_)) {
      Group group = graph_.merged(chain);
      if (handed_on(group, true) >= chain_rule_.least_bytes)
        chains.emplace_back(std::move(chain), std::move(group));
    }
    compose_all(chains);
    std::vector<Gaining> gaining;
    for (auto& [chain, group] : chains) {
      const int64_t bytes = handed_on(group, false);
      const Known& one = known_.at(keys_.of(group).hash);
      if (!one.composition) continue;
      const std::string bound = chain_rule_.memory_bound ? memory_bound(group) : "";
      const double least = least_share(group, bytes);
      if (bound.empty() && one.microseconds >= (1 - least) * greedy_us(group)) continue;
      const double taken = taken_from_greedy(group), gain = taken - one.microseconds;
      if (gain > least * taken || !bound.empty())
        gaining.push_back({std::move(chain), group, *one.composition, gain, bytes, bound});
    }
    add_rows(apart, &gaining);
    if (gaining.empty()) return apart;
    std::ranges::sort(gaining, [](const Gaining& a, const Gaining& b) {
      return a.gain_us != b.gain_us ? a.gain_us > b.gain_us : a.steps < b.steps;
    });
    for (const Gaining* chain : best_of(gaining)) take(*chain);
    return merge_rest();
  }

 private:
  /// A chain as one kernel; none where it is not built.
  struct Known {
    std::optional<Composition> composition;
    double microseconds = 0;
  };
  struct Gaining {
    std::vector<int> steps;
    Group group;
    Composition composition;
    double gain_us = 0;  ///< over what greedy makes of the same
    int64_t bytes = 0;   ///< that greedy's kernels hand each other and this one keeps
    std::string bound;   ///< by memory: the figures; empty where it is not or was not asked
  };

  /// `most_us`: what it has to take less than; empty where any will do.
  Known composed(const Group& group, std::function<double()> most_us) const {
    auto kernel =
        schedule_chain(task_.program, group, task_.target, "chain",
                       {.deep_only = task_.parameters.flat == 0, .most_us = std::move(most_us)});
    if (!kernel.ok()) return {};
    return {kernel->composition, kernel->estimate.microseconds};
  }

  /// Each of another key, side by side.
  void compose_all(const std::vector<std::pair<std::vector<int>, Group>>& chains) {
    struct Unknown {
      std::vector<const Group*> groups;  ///< of one key
      Known* known;
    };
    std::vector<Unknown> unknown;
    std::map<Hash128, size_t> numbers;
    for (const auto& [chain, group] : chains) {
      const Hash128 key = keys_.of(group).hash;
      const auto [number, is_new] = numbers.try_emplace(key, unknown.size());
      if (is_new) unknown.push_back({{}, &known_[key]});
      unknown[number->second].groups.push_back(&group);
    }
    std::mutex mutex;  // of what greedy's kernels are known to take
    for_each_in_parallel(unknown.size(), usable_threads(), [&](size_t i) {
      throw_if_cancelled(task_.known.cancel());
      const auto most = [&, i] {
        const std::lock_guard lock(mutex);
        double us = 0;
        for (const Group* group : unknown[i].groups) us = std::max(us, greedy_us(*group));
        return us;
      };
      *unknown[i].known = composed(*unknown[i].groups.front(),
                                   chain_rule_.memory_bound ? std::function<double()>() : most);
    });
  }

  /// "φ of 21.3 operations a byte, where a100-40gb does 200.6": the chain's least of its
  /// contractions; empty where arithmetic bounds one.
  std::string memory_bound(const Group& group) const {
    std::optional<TileIntensity> least;
    for (const ExprId e : group.exprs) {
      const TensorExpr& expr = task_.program.exprs[static_cast<size_t>(e)];
      if (!expr.is_contraction) continue;
      const auto own = tile_intensity(task_.program, expr, task_.target);
      if (!own || !own->memory_bound()) return "";
      if (!least || own->flops_per_byte < least->flops_per_byte) least = own;
    }
    if (!least) return "";
    return fmt::format("φ of {:.1f} operations a byte, where {} does {:.1f}", least->flops_per_byte,
                       task_.target.name, least->ridge);
  }

  /// Of what greedy's kernels take, what a chain gains at least. On a CPU one of a single
  /// contraction is a block of stages like others (stitching_rule).
  double least_share(const Group& group, int64_t bytes) const {
    const auto contractions = std::ranges::count_if(group.exprs, [&](ExprId e) {
      return task_.program.exprs[static_cast<size_t>(e)].is_contraction;
    });
    if (contractions < 2) return task_.target.is_gpu() ? 0 : task_.parameters.gain;
    return bytes < chain_rule_.alike_bytes ? 0 : -kAlike;
  }

  /// Greedy's kernels of rows that no cache of a core holds, of which a later reduction depends on
  /// an earlier one: carried in one loop they are walked once.
  void add_rows(const Partition& apart, std::vector<Gaining>* gaining) {
    if (task_.target.is_gpu()) return;
    for (const Group& g : apart.groups) {
      int64_t row_bytes = 0, reductions = 0;
      for (const ExprId e : g.exprs) {
        const TensorExpr& own = task_.program.exprs[static_cast<size_t>(e)];
        if (own.is_contraction) row_bytes = -1;
        if (own.is_contraction || own.reduce_extents.empty()) continue;
        int64_t elements = byte_size(own.accumulator);
        for (const int64_t extent : own.reduce_extents) elements *= extent;
        if (row_bytes >= 0) row_bytes = std::max(row_bytes, elements);
        ++reductions;
      }
      if (reductions < 2 || row_bytes <= task_.target.l2_bytes / 2) continue;
      const auto [one_of_key, is_new] = known_.try_emplace(keys_.of(g).hash);
      Known& one = one_of_key->second;
      if (is_new) one = composed(g, {});
      if (!one.composition) continue;
      const double gain = built_us(g) - one.microseconds;
      if (gain <= 0) continue;
      std::vector<int> steps;
      for (const ExprId e : g.exprs) steps.push_back(step_of(e));
      std::ranges::sort(steps);
      gaining->push_back({std::move(steps), g, *one.composition, gain, 0, ""});
    }
  }

  /// Bytes between greedy's kernels of a chain's expressions that do not leave the chain; with
  /// `within`, also what contractions of one kernel make and read.
  int64_t handed_on(const Group& chain, bool within) const {
    const auto expr = [&](ExprId e) -> const TensorExpr& {
      return task_.program.exprs[static_cast<size_t>(e)];
    };
    std::set<TensorId> between;
    for (const ExprId e : chain.exprs) {
      visit(expr(e).body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead) return;
        const auto maker =
            std::ranges::find_if(chain.exprs, [&](ExprId m) { return expr(m).output == s.symbol; });
        if (maker == chain.exprs.end()) return;
        if (std::ranges::find(chain.outputs, s.symbol) != chain.outputs.end()) return;
        const bool contracted = expr(e).is_contraction || expr(*maker).is_contraction;
        if (group_of_.at(*maker) != group_of_.at(e) || (within && contracted))
          between.insert(s.symbol);
      });
    }
    int64_t bytes = 0;
    for (const TensorId t : between) bytes += bytes_of(task_.program, t);
    return bytes;
  }

  /// Greedy's kernels that hold some of these expressions.
  std::set<const Group*> greedy_groups(const Group& chain) const {
    std::set<const Group*> out;
    for (const ExprId e : chain.exprs) out.insert(group_of_.at(e));
    return out;
  }
  /// What these take: nothing that a chain takes from greedy is more.
  double greedy_us(const Group& chain) {
    double us = 0;
    for (const Group* g : greedy_groups(chain)) us += built_us(*g);
    return us;
  }

  /// What greedy's kernels take less without these expressions.
  double taken_from_greedy(const Group& chain) {
    double us = greedy_us(chain);
    for (const Group* g : greedy_groups(chain)) {
      Group rest;
      std::ranges::set_difference(g->exprs, chain.exprs, std::back_inserter(rest.exprs));
      if (rest.exprs.empty()) continue;
      std::vector<int> steps;
      for (const ExprId e : rest.exprs) steps.push_back(step_of(e));
      us -= built_us(graph_.merged(steps));
    }
    return us;
  }

  /// By the evaluator that weighs chains.
  double built_us(const Group& group) {
    const std::optional<double> us = task_.known.built_us(group);
    return us ? *us : times_.latency(group);
  }

  static bool meet(const Gaining& a, const Gaining& b) {
    return std::ranges::any_of(a.steps,
                               [&](int s) { return std::ranges::binary_search(b.steps, s); });
  }
  /// Of chains that memory bounds each counts, however little.
  static double value_of(const Gaining& chain) { return std::max(chain.gain_us, 1e-6); }

  /// Of those that meet, directly or through others, the set that gains most; of many of them one
  /// after another by what it gains. `gaining` is in this order.
  static std::vector<const Gaining*> best_of(const std::vector<Gaining>& gaining) {
    std::vector<const Gaining*> out;
    std::vector<bool> seen(gaining.size(), false);
    for (size_t g = 0; g < gaining.size(); ++g) {
      if (seen[g]) continue;
      std::vector<size_t> part{g};
      seen[g] = true;
      for (size_t i = 0; i < part.size(); ++i) {
        for (size_t o = 0; o < gaining.size(); ++o) {
          if (seen[o] || !meet(gaining[part[i]], gaining[o])) continue;
          seen[o] = true;
          part.push_back(o);
        }
      }
      std::ranges::sort(part);
      if (part.size() <= kMostTogether) part = best_apart(gaining, part);
      for (const size_t i : part) out.push_back(&gaining[i]);
    }
    return out;
  }

  static std::vector<size_t> best_apart(const std::vector<Gaining>& gaining,
                                        const std::vector<size_t>& part) {
    std::vector<size_t> best;
    double most = 0;
    for (uint32_t set = 1; set < 1U << part.size(); ++set) {
      std::vector<size_t> chosen;
      double value = 0;
      for (size_t i = 0; i < part.size(); ++i) {
        if ((set >> i & 1U) == 0) continue;
        chosen.push_back(part[i]);
        value += value_of(gaining[part[i]]);
      }
      if (value <= most) continue;
      bool apart = true;
      for (size_t i = 0; i < chosen.size(); ++i) {
        for (size_t o = 0; o < i; ++o) apart &= !meet(gaining[chosen[i]], gaining[chosen[o]]);
      }
      if (!apart) continue;
      most = value;
      best = std::move(chosen);
    }
    return best;
  }

  int step_of(ExprId e) const {
    if (steps_.empty()) {
      steps_.resize(task_.program.exprs.size());
      for (size_t s = 0; s < task_.program.steps.size(); ++s) {
        const TensorProgram::Step& step = task_.program.steps[s];
        if (!step.opaque) steps_[static_cast<size_t>(step.index)] = static_cast<int>(s);
      }
    }
    return steps_[static_cast<size_t>(e)];
  }

  void take(const Gaining& chain) {
    if (std::ranges::any_of(chain.steps, [&](int s) { return taken_.count(s) != 0; })) return;
    if (!graph_.is_convex(chain.steps)) return;
    graph_.merge(chain.steps);
    taken_.insert(chain.steps.begin(), chain.steps.end());
    std::string reason = chain.gain_us > 0
                             ? fmt::format("a chain takes {:.1f} us less", chain.gain_us)
                             : fmt::format(
                                   "a chain takes {:.1f} us more and keeps {} bytes out of "
                                   "memory",
                                   -chain.gain_us, chain.bytes);
    if (!chain.bound.empty()) reason += "; " + chain.bound;
    for (const int s : chain.steps) reason_of_[s] = reason;
    composed_.emplace_back(chain.group.exprs, chain.composition);
  }

  bool holds_chain(const Group& group) const {
    return std::ranges::any_of(group.exprs,
                               [&](ExprId e) { return taken_.count(step_of(e)) != 0; });
  }

  /// The rest as greedy merges it.
  Result<Partition> merge_rest() {
    FusionRule rule = rule_;
    const auto apart = [this](const auto& legal) {
      return [this, legal](const Group& merged) {
        return holds_chain(merged) ? Decision::forbid("one of them is a chain") : legal(merged);
      };
    };
    rule.legal = apart(rule_.legal);
    if (rule_.legal_beside) rule.legal_beside = apart(rule_.legal_beside);
    if (rule_.composes) {
      rule.composes = [this](const Group& a, const Group& b, const Group& merged) {
        return holds_chain(merged) ? Decision::forbid("one of them is a chain")
                                   : rule_.composes(a, b, merged);
      };
    }
    Partition out = merge_greedily(task_.program, rule, graph_, {});
    for (EdgeDecision& edge : out.edges) {
      const auto reason = reason_of_.find(edge.consumer);
      if (edge.verdict == EdgeDecision::Verdict::kFused && reason != reason_of_.end())
        edge.reason = reason->second;
    }
    for (auto& [exprs, composition] : composed_) {
      for (size_t g = 0; g < out.groups.size(); ++g) {
        if (out.groups[g].exprs == exprs) out.composed.emplace(g, composition);
      }
    }
    return out;
  }

  const PlanningTask& task_;
  const ChainRule chain_rule_;
  KernelTimes times_;
  const FusionRule rule_;
  FusionGraph graph_;
  GroupKeys keys_;
  std::map<Hash128, Known> known_;
  std::map<ExprId, const Group*> group_of_;  ///< greedy's
  std::set<int> taken_;                      ///< steps of chains
  std::map<int, std::string> reason_of_;     ///< by step
  std::vector<std::pair<std::vector<ExprId>, Composition>> composed_;
  mutable std::vector<int> steps_;
};

}  // namespace

/// Chains of contractions that memory bounds become kernels, and others where that is predicted to
/// be quicker; greedy plans the rest (MCFuser §V-B).
Result<Partition> partition_chain(const PlanningTask& task) {
  if (!task.kinds.chain) return partition_greedy(task);
  return ChainSelection(task, {.memory_bound = true}).run();
}

/// Chains are weighed on GPUs, and on CPUs where what lies between contractions takes half of the
/// last cache, beside what goes in and out: shorter rows stay in a core's first caches, and each
/// chain is built to be weighed. Where kernels hand on what does not stay in that cache a chain
/// need not be predicted to be quicker.
Result<Partition> partition_auto(const PlanningTask& task) {
  const TensorProgram& program = task.program;
  const int64_t cache = task.target.is_gpu() ? 0 : task.target.l3_bytes, least_bytes = cache / 2;
  // What is handed on is little more than twice the largest value: scores, and weights of them.
  constexpr int64_t kMostAlike = 4;
  const auto may_gain = [&](const TensorExpr& e) {
    return bytes_of(program, e.output) > least_bytes / kMostAlike;
  };
  return task.kinds.chain && std::ranges::any_of(program.exprs, may_gain)
             ? ChainSelection(task, {.least_bytes = least_bytes, .alike_bytes = cache}).run()
             : partition_greedy(task);
}

}  // namespace weft
