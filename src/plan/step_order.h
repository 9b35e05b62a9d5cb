#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "plan/fusion_plan.h"

namespace weft {

/// Places in an order of steps: behind `after`, before `before`.
struct Gap {
  int64_t after = -1, before = std::numeric_limits<int64_t>::max();
  bool holds(size_t step) const {
    return after < static_cast<int64_t>(step) && static_cast<int64_t>(step) < before;
  }
};
/// What lies in both.
Gap operator&(const Gap& a, const Gap& b);

/// Where the steps of a plan run, of which some share the place of another.
class StepOrder {
 public:
  /// Both outlive this.
  StepOrder(const TensorProgram& program, const FusionPlan& plan);

  /// The place of the step that makes a tensor; -1 of what is given.
  int64_t made_at(TensorId t) const;
  /// Behind all that a step reads, before all that read what it makes.
  Gap gap(size_t step) const { return gaps_[step]; }
  /// The step runs at the place of that other one.
  void move(size_t step, size_t place);

 private:
  std::vector<TensorId> reads_of(size_t step) const;
  const std::vector<TensorId>& made_by(size_t step) const;
  void find_gap(size_t step);

  const TensorProgram& program_;
  const FusionPlan& plan_;
  std::vector<int64_t> places_;                ///< by step
  std::vector<int32_t> makers_;                ///< by tensor: the step; -1
  std::vector<std::vector<int32_t>> readers_;  ///< by tensor: steps
  std::vector<Gap> gaps_;                      ///< by step
};

/// Puts what `kernel_at` gives in the place of the kernel of each step, in their order; steps that
/// are `gone` by then run with an earlier one, and are left out. `launch_at`, where it is given,
/// may put a kernel in the place of an opaque step.
using LaunchAt = std::function<Result<std::optional<PlannedKernel>>(size_t step)>;
Status replace_kernels(FusionPlan& plan, const std::vector<bool>& gone,
                       const std::function<Result<PlannedKernel>(size_t step)>& kernel_at,
                       const LaunchAt& launch_at = {});

}  // namespace weft
