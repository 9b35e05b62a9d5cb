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

  /// Whether blocks of stages are predicted to be quicker than two kernels.
  Decision composes(const Group& a, const Group& b, const Group& merged) {
    if (merged.exprs.size() > kMaxExpressions)
      return Decision::forbid(fmt::format("they would hold {} expressions", merged.exprs.size()));
    const Result<double> together = known_.block_us(merged);
    if (!together.ok()) return Decision::forbid(together.error().message);
    const double saved = microseconds(a) + microseconds(b) - *together;
    if (saved <= 0) return Decision::forbid(fmt::format("they take {:.1f} us longer", -saved));
    return Decision::allow(fmt::format("blocks of stages save {:.1f} us", saved));
  }

 private:
  /// As the kernel that the group is scheduled as. A GPU's products have a model of their own.
  double microseconds(const Group& group) {
    if (!known_.can_be_leaf(group)) {
      const Result<double> block = known_.block_us(group);
      return block.ok() ? *block : estimate(group).microseconds;
    }
    const std::optional<double> us = target_.is_gpu() ? of_product(group) : known_.leaf_us(group);
    return us ? *us : estimate(group).microseconds;
  }

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
/// along its rows and across them; then what blocks of stages hold, kernel by kernel. Scopes are
/// derived when the tile program is built.
Partition partition_greedy(const TensorProgram& program, const Target& target,
                           CompositionKinds kinds) {
  KnownGroups known(program, target);
  Profit profit(program, target, known);
  FusionRule rule;
  rule.legal = [&](const Group& merged) {
    return kinds.leaf ? known.can_be_leaf(merged) : Decision::forbid("leaves are not tried");
  };
  rule.profitable = [&](const Group& a, const Group& b, const Group& merged) {
    return profit.saves_time(a, b, merged);
  };
  if (kinds.leaf && target.is_gpu()) {
    rule.may_be_beside = [&](const Group& a, const Group& b) {
      return may_reduce_two_ways(program, {&a, &b});
    };
    rule.legal_beside = [&](const Group& merged) { return known.can_reduce_both_ways(merged); };
  }
  if (kinds.block) {
    rule.composes = [&](const Group& a, const Group& b, const Group& merged) {
      return profit.composes(a, b, merged);
    };
  }
  return merge_greedily(program, rule);
}

}  // namespace weft
