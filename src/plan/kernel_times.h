#pragma once

#include <span>

#include "cost/estimate.h"
#include "plan/known_groups.h"

namespace weft {

/// What kernels of one program are predicted to take, before they are built, and what merging them
/// saves. A GPU's products, library calls and blocks of stages have models of their own; what
/// planning asked before is known.
class KernelTimes {
 public:
  KernelTimes(const TensorProgram& program, const Target& target, KnownGroups& known)
      : program_(program), target_(target), cost_(program, target), known_(known) {}

  struct Saving {
    double microseconds = 0;
    int64_t bytes = 0;  ///< of memory traffic
  };
  /// One kernel over several. Where results of a product are reduced, or a library could take one
  /// of the groups, by the models of products. On a CPU by the built kernels where results are
  /// stored in another order than what is reduced lies in.
  Saving saved(std::span<const Group> parts, const Group& merged);

  /// What blocks of stages in the place of the groups may save; infinite where that is not known
  /// before they are built. On a CPU it is launches and the traffic between the groups, or what
  /// they take longer than their traffic and arithmetic, where leaves have no good tile.
  Saving most_saved(std::span<const Group> parts, const Group& merged);

  /// As the kernel that the group is scheduled as: comparable whether that is a leaf or blocks. By
  /// its tile program: cost/latency on CPUs, cost/gpu_latency on GPUs, whose products and library
  /// calls have models of their own.
  double latency(const Group& group);

 private:
  Estimate estimate(const Group& group) const { return cost_.estimate(group.exprs, group.outputs); }
  bool holds_product(const Group& group) const;
  bool stores_across(const Group& group) const;
  std::optional<double> of_library(const Group& group);
  bool is_choice_of_library(std::span<const Group> parts, const Group& merged);
  std::optional<double> of_product(const Group& group);

  const TensorProgram& program_;
  const Target& target_;
  CostModel cost_;
  KnownGroups& known_;
};

}  // namespace weft
