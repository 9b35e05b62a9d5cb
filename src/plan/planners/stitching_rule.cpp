#include "plan/planners/stitching_rule.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "fmt/format.h"

namespace weft {

namespace {

Decision saves_time(KernelTimes& times, const Group& a, const Group& b, const Group& merged) {
  const KernelTimes::Saving saved = times.saved(std::array{a, b}, merged);
  if (saved.microseconds <= 0)
    return Decision::forbid(fmt::format("one kernel takes {:.1f} us longer", -saved.microseconds));
  return Decision::allow(fmt::format("saves {:.1f} us and {} bytes of memory traffic",
                                     saved.microseconds, saved.bytes));
}

/// Whether a run is so short that it wakes no other thread (assemble), and all that it touches
/// stays in its core's cache: then kernels start for nothing and hand each other values as blocks
/// would.
bool stays_in_one_core(const PlanningTask& task) {
  constexpr double kSerialRunUs = 25;
  const Target& target = task.target;
  if (target.is_gpu()) return false;
  std::vector<ExprId> all(task.program.exprs.size());
  std::iota(all.begin(), all.end(), 0);
  const Estimate whole = CostModel(task.program, target).estimate(all, task.program.outputs);
  const double us = whole.microseconds - target.start_us();
  return us * std::max(target.threads, 1) < kSerialRunUs &&
         whole.bytes_read + whole.bytes_written <= target.l2_bytes;
}

/// Whether expressions give what they read in another order, and compute nothing.
bool only_moves(const TensorProgram& program, const Group& group) {
  return std::ranges::all_of(group.exprs, [&](ExprId e) {
    const TensorExpr& own = program.exprs[static_cast<size_t>(e)];
    return own.reduce_extents.empty() && own.body->kind == Scalar::Kind::kRead;
  });
}

/// What blocks have to save at least. Where predictions do not tell them from kernels apart, a
/// CPU's blocks are made if they keep values in the cores' caches that would leave these; small
/// caches of cores hand them to each other through a part of the last one as well. A copy that a
/// kernel has made for itself alone saves less than how it is computed then costs.
double least_saved(const PlanningTask& task, double apart, int64_t bytes, bool copies) {
  const Target& target = task.target;
  const double gain = task.parameters.gain;
  constexpr int64_t kWrittenAndRead = 2, kPartOfLast = 16;
  const int64_t caches =
      std::max(target.l2_bytes * std::max(target.threads, 1), target.l3_bytes / kPartOfLast);
  if (target.is_gpu() || gain == 0 || (bytes > kWrittenAndRead * caches && !copies)) return 0;
  return gain * apart;
}

Decision composes(const PlanningTask& task, KernelTimes& times, const Group& a, const Group& b,
                  const Group& merged) {
  const double apart = times.latency(a) + times.latency(b);
  const KernelTimes::Saving most = times.most_saved(std::array{a, b}, merged);
  const bool copies = only_moves(task.program, a) && !only_moves(task.program, b);
  const double least = least_saved(task, apart, most.bytes, copies);
  if (most.microseconds <= least) {
    return Decision::forbid(
        fmt::format("they save {:.1f} us of {:.1f} us at most", most.microseconds, apart));
  }
  const Result<double> together = task.known.block_us(merged, apart - least);
  if (!together.ok()) return Decision::forbid(together.error().message);
  const double saved = apart - *together;
  if (saved <= least)
    return Decision::forbid(fmt::format("they save {:.1f} us of {:.1f} us", saved, apart));
  return Decision::allow(fmt::format("blocks of stages save {:.1f} us", saved));
}

}  // namespace

Target priced_launches(const PlanningTask& task) {
  Target target = task.target;
  if (task.parameters.launch_us >= 0) {
    target.launch_us = task.parameters.launch_us;
    target.barrier_us = 0;
  }
  return target;
}

FusionRule stitching_rule(const PlanningTask& task, KernelTimes& times) {
  const TensorProgram& program = task.program;
  KnownGroups& known = task.known;
  const CompositionKinds kinds = task.kinds;
  const auto most = static_cast<size_t>(task.parameters.expressions);
  FusionRule rule;
  rule.legal = [&known, kinds](const Group& merged) {
    return kinds.leaf ? known.can_be_leaf(merged) : Decision::forbid("leaves are not tried");
  };
  rule.profitable = [&times, most](const Group& a, const Group& b, const Group& merged) {
    if (merged.exprs.size() > most) {
      return Decision::forbid(fmt::format("the kernel would hold {} expressions, more than {}",
                                          merged.exprs.size(), most));
    }
    return saves_time(times, a, b, merged);
  };
  if (kinds.leaf && task.target.is_gpu()) {
    rule.reduced_sizes = [&program](const Group& group) { return reduced_sizes(program, group); };
    rule.legal_beside = [&known](const Group& merged) {
      return known.can_reduce_both_ways(merged);
    };
  }
  if (kinds.block && (task.parameters.gain == 0 || !stays_in_one_core(task))) {
    rule.composes = [task, &times, kinds, most](const Group& a, const Group& b,
                                                const Group& merged) {
      if (merged.exprs.size() > most)
        return Decision::forbid(fmt::format("they would hold {} expressions", merged.exprs.size()));
      if (kinds.leaf && task.known.can_be_leaf(merged))
        return Decision::forbid("a template holds them");
      return composes(task, times, a, b, merged);
    };
  }
  return rule;
}

}  // namespace weft
