#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "choice/measured_compositions.h"
#include "group/group_key.h"
#include "plan/fusion_plan.h"
#include "plan/known_groups.h"

namespace weft {

/// The kernels of a target by the keys of their groups, over a program and its regions: what is
/// equal, as the layers of a model are, is chosen and built once.
class KernelsByKey {
 public:
  /// `measured` may be null; it outlives this.
  KernelsByKey(const Target& target, const MeasuredCompositions* measured)
      : target_(target), measured_(measured) {}

  /// Schedules every kernel of a plan, those in `composed` as it says. `groups` are of `program`;
  /// throws Cancelled where their flag says so.
  Status schedule(const TensorProgram& program, KnownGroups& groups,
                  const std::map<size_t, Composition>& composed, FusionPlan& plan);
  /// Puts the traffic of their tile programs into the estimates. What shares a launch is looked at
  /// alone.
  void estimate(GroupKeys& keys, FusionPlan& plan);

 private:
  struct Known {
    /// schedule_key's; none where it is an error.
    std::optional<ScheduledKernel> kernel;
    /// Bytes alone, and those read of each parameter.
    std::optional<Estimate> traffic;
    std::vector<int64_t> parameter_reads;
  };

  std::span<const MeasuredComposition> measured_of(const GroupKey& key) const {
    return measured_ == nullptr ? std::span<const MeasuredComposition>() : measured_->of(key.hash);
  }

  const Target target_;
  const MeasuredCompositions* measured_;
  std::map<Hash128, Known> known_;
};

}  // namespace weft
