#include "plan/planners/stitching_rule.h"

#include <array>
#include <memory>

#include "fmt/format.h"

namespace weft {

namespace {

/// What a CPU's blocks of stages must save of what their parts take: predictions are off by as much
/// (bench/results/latency.md).
constexpr double kMargin = 0.15;
/// Of the program's time, what one kernel must be able to save for it to be built and priced: so a
/// plan builds few.
constexpr double kWorth = 0.01;

Decision saves_time(KernelTimes& times, const Group& a, const Group& b, const Group& merged) {
  if (merged.exprs.size() > kMostExpressions) {
    return Decision::forbid(fmt::format("the kernel would hold {} expressions, more than {}",
                                        merged.exprs.size(), kMostExpressions));
  }
  const KernelTimes::Saving saved = times.saved(std::array{a, b}, merged);
  if (saved.microseconds <= 0)
    return Decision::forbid(fmt::format("one kernel takes {:.1f} us longer", -saved.microseconds));
  return Decision::allow(fmt::format("saves {:.1f} us and {} bytes of memory traffic",
                                     saved.microseconds, saved.bytes));
}

/// Tells whether two groups compose.
class ComposingRule {
 public:
  ComposingRule(KernelTimes& times, KnownGroups& known, const Target& target)
      : times_(times), known_(known), priced_as_built_(!target.is_gpu()) {}

  void begin(const std::vector<Group>& groups) {
    if (priced_as_built_) least_us_ = kWorth * times_.before_building(groups);
  }

  Decision operator()(const Group& a, const Group& b, const Group& merged) {
    const std::array parts{a, b};
    if (merged.exprs.size() > kMostExpressions)
      return Decision::forbid(fmt::format("they would hold {} expressions", merged.exprs.size()));
    if (const Decision worth = worth_building(parts, merged); !worth) return worth;
    const Result<double> together = known_.block_us(merged);
    if (!together.ok()) return Decision::forbid(together.error().message);
    const double apart = times_.latency(a) + times_.latency(b), saved = apart - *together;
    if (saved <= 0) return Decision::forbid(fmt::format("they take {:.1f} us longer", -saved));
    if (priced_as_built_ && saved <= kMargin * apart) {
      return Decision::forbid(
          fmt::format("they save {:.1f} us of {:.1f}, too little to rely on", saved, apart));
    }
    return Decision::allow(fmt::format("blocks of stages save {:.1f} us of {:.1f}", saved, apart));
  }

 private:
  Decision worth_building(const std::array<Group, 2>& parts, const Group& merged) {
    if (!priced_as_built_) return Decision::allow();
    if (const double us = times_.saved(parts, merged).microseconds; us <= least_us_) {
      return Decision::forbid(
          fmt::format("they save {:.1f} us, less than {:.0f}% of all", us, 100 * kWorth));
    }
    const double most = times_.most_saved(parts);
    const double apart = times_.latency(parts[0]) + times_.latency(parts[1]);
    if (most > kMargin * apart) return Decision::allow();
    return Decision::forbid(fmt::format("they save at most {:.1f} us of {:.1f}", most, apart));
  }

  KernelTimes& times_;
  KnownGroups& known_;
  bool priced_as_built_;
  double least_us_ = 0;
};

}  // namespace

FusionRule stitching_rule(const TensorProgram& program, const Target& target, KernelTimes& times,
                          KnownGroups& known, CompositionKinds kinds) {
  FusionRule rule;
  rule.legal = [&known, kinds](const Group& merged) {
    return kinds.leaf ? known.can_be_leaf(merged) : Decision::forbid("leaves are not tried");
  };
  rule.profitable = [&times](const Group& a, const Group& b, const Group& merged) {
    return saves_time(times, a, b, merged);
  };
  if (kinds.leaf && target.is_gpu()) {
    rule.may_be_beside = [&program](const Group& a, const Group& b) {
      return may_reduce_two_ways(program, {&a, &b});
    };
    rule.legal_beside = [&known](const Group& merged) {
      return known.can_reduce_both_ways(merged);
    };
  }
  if (kinds.block) {
    auto composing = std::make_shared<ComposingRule>(times, known, target);
    rule.begins_composing = [composing](const std::vector<Group>& groups) {
      composing->begin(groups);
    };
    rule.composes = [composing](const Group& a, const Group& b, const Group& merged) {
      return (*composing)(a, b, merged);
    };
  }
  return rule;
}

}  // namespace weft
