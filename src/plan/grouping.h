#pragma once

#include <functional>
#include <vector>

#include "plan/fusion_plan.h"

namespace weft {

/// The state of a greedy partition: groups of steps that merge, kept acyclic.
class Grouping {
 public:
  Grouping(const TensorProgram& program, const Target& target);

  /// Group of a step; opaque steps are groups of their own that never merge.
  int group_of(int step) const { return group_of_[static_cast<size_t>(step)]; }
  const std::vector<int>& steps(int group) const { return members_[static_cast<size_t>(group)]; }
  Group group(int group) const { return make_group(steps(group)); }
  /// The union of two groups, with the outputs that it would have.
  Group merged(int a, int b) const;
  /// Whether merging keeps the kernels acyclic: no other group lies between them.
  Decision stays_acyclic(int a, int b) const;
  void merge(int a, int b);

  std::vector<Group> groups() const;
  const TensorUses& uses() const { return uses_; }
  const TensorProgram& program() const { return program_; }

 private:
  Group make_group(std::vector<int> steps) const;
  std::vector<int> successors(int group) const;

  const TensorProgram& program_;
  TensorUses uses_;
  std::vector<std::vector<int>> consumers_;  ///< of each step: steps that read what it makes
  std::vector<int> group_of_;
  std::vector<std::vector<int>> members_;  ///< ascending steps; empty after a merge
};

/// Walks the edges in step order; where `may_fuse` allows the union of two groups, they merge.
/// Records a verdict for every edge between two expressions. Then groups that read the same tensor
/// merge where `legal_beside` allows it.
struct FusionRule {
  /// Legality: may these expressions be one kernel?
  std::function<Decision(const Group& merged)> legal;
  /// Profit: should these two?
  std::function<Decision(const Group& a, const Group& b, const Group& merged)> profitable;
  /// Legality of groups that hand each other nothing and read a tensor both; none: they stay apart.
  std::function<Decision(const Group& merged)> legal_beside = nullptr;
};
Partition merge_greedily(const TensorProgram& program, const Target& target,
                         const FusionRule& rule);

}  // namespace weft
