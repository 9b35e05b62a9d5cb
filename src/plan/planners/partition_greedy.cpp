#include <algorithm>
#include <initializer_list>

#include "cost/estimate.h"
#include "fmt/format.h"
#include "plan/known_groups.h"
#include "plan/planners/partitions.h"
#include "plan/selectors/merge_greedily.h"

namespace weft {

namespace {

/// Expressions a kernel: beyond this, registers run out and compile time grows faster than what a
/// further merge saves.
constexpr size_t kMaxExpressions = 48;

/// Predicts kernels of one program, and what merging them saves.
class Profit {
 public:
  Profit(const TensorProgram& program, const Target& target, KnownGroups& known)
      : program_(program), target_(target), cost_(program, target), known_(known) {}

  /// Whether one kernel is predicted to be quicker than two.
  Decision saves_time(const Group& a, const Group& b, const Group& merged) {
    if (merged.exprs.size() > kMaxExpressions) {
      return Decision::forbid(fmt::format("the kernel would hold {} expressions, more than {}",
                                          merged.exprs.size(), kMaxExpressions));
    }
    Estimate first = estimate(a), second = estimate(b), together = estimate(merged);
    // Results that are reduced ask for a tile that may be slower than the one without, and what
    // is no call of a library any more for a kernel that may be slower than the library's.
    const std::initializer_list<std::pair<const Group*, Estimate*>> all = {
        {&a, &first}, {&b, &second}, {&merged, &together}};
    if (target_.is_gpu() &&
        (reduces_behind_product(program_, merged) || is_choice_of_library({&a, &b, &merged}))) {
      for (const auto& [group, estimate] : all) {
        if (const auto us = of_product(*group)) estimate->microseconds = *us;
      }
    }
    const double saved = first.microseconds + second.microseconds - together.microseconds;
    if (saved <= 0)
      return Decision::forbid(fmt::format("one kernel takes {:.1f} us longer", -saved));
    const auto moved = [](const Estimate& e) { return e.bytes_read + e.bytes_written; };
    return Decision::allow(fmt::format("saves {:.1f} us and {} bytes of memory traffic", saved,
                                       moved(first) + moved(second) - moved(together)));
  }

 private:
  Estimate estimate(const Group& group) const { return cost_.estimate(group.exprs, group.outputs); }

  bool holds_product(const Group& group) const {
    return std::ranges::any_of(group.exprs, [&](ExprId e) {
      return program_.exprs[static_cast<size_t>(e)].is_contraction;
    });
  }

  /// As a library call; nothing where it is none.
  std::optional<double> of_library(const Group& group) {
    if (target_.libraries.empty() || !holds_product(group)) return std::nullopt;
    return known_.library_us(group);
  }

  /// Whether one of the groups is a library call, and of all that hold a product a model says what
  /// they take.
  bool is_choice_of_library(std::initializer_list<const Group*> groups) {
    bool called = false;
    for (const Group* group : groups) {
      if (target_.libraries.empty() || (holds_product(*group) && !of_product(*group))) return false;
      called |= of_library(*group).has_value();
    }
    return called;
  }

  /// As a library call, or through tiles of its own. The choice of a tile tries thousands, so each
  /// group's is made once.
  std::optional<double> of_product(const Group& group) {
    if (const auto us = of_library(group)) return us;
    if (!holds_product(group)) return std::nullopt;
    return known_.product_us(group);
  }

  const TensorProgram& program_;
  const Target& target_;
  CostModel cost_;
  KnownGroups& known_;
};

}  // namespace

/// Stitches everything that a template can hold: elementwise chains, reductions over common axes
/// with what feeds and follows them, contractions with what follows them; reductions of one tensor
/// along its rows and across them. Scopes are derived when the tile program is built.
Partition partition_greedy(const TensorProgram& program, const Target& target) {
  KnownGroups known(program, target);
  Profit profit(program, target, known);
  FusionRule rule;
  rule.legal = [&](const Group& merged) { return known.can_schedule(merged); };
  rule.profitable = [&](const Group& a, const Group& b, const Group& merged) {
    return profit.saves_time(a, b, merged);
  };
  rule.legal_beside = [&](const Group& merged) { return known.can_reduce_both_ways(merged); };
  return merge_greedily(program, rule);
}

}  // namespace weft
