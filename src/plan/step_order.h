#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/fusion_plan.h"

namespace weft {

/// When the tensors of a plan are made, by its steps, of which some run earlier than they stand.
class StepOrder {
 public:
  /// Both outlive this.
  StepOrder(const TensorProgram& program, const FusionPlan& plan);

  /// The position of the step that makes a tensor; -1 of what is given.
  int64_t made_at(TensorId t) const { return made_at_[static_cast<size_t>(t)]; }
  /// Whether everything that a kernel reads is made before a position.
  bool ready(int32_t kernel, size_t position) const;
  /// The kernel runs with the step of that position.
  void move(int32_t kernel, size_t position);

 private:
  void place(TensorId t, size_t position) {
    made_at_[static_cast<size_t>(t)] = static_cast<int64_t>(position);
  }

  const FusionPlan& plan_;
  std::vector<int64_t> made_at_;  ///< by tensor
};

/// Puts what `kernel_at` gives in the place of the kernel of each step, in their order; steps that
/// are `gone` by then run with an earlier one, and are left out.
Status replace_kernels(FusionPlan& plan, const std::vector<bool>& gone,
                       const std::function<Result<PlannedKernel>(size_t step)>& kernel_at);

}  // namespace weft
