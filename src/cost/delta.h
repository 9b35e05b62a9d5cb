#pragma once

#include <span>
#include <vector>

#include "cost/estimate.h"

namespace weft {

/// What one kernel saves over a kernel for each of its expressions, by three terms that need no
/// tile program (FusionStitching 2021 §5.4).
struct Delta {
  double memory_us = 0;   ///< of traffic that stays on chip, by the bandwidth curve
  double calls_us = 0;    ///< of launches and barriers that are not made
  double penalty_us = 0;  ///< what the arithmetic and the memory take longer in one kernel
  double gain_us() const { return memory_us + calls_us - penalty_us; }
};

/// The evaluator `delta`: cheap enough to be asked of every candidate of a planner. The penalty is
/// a latency in waves of warps, with 16 registers a thread and the largest request of block memory
/// instead of lifetimes. A value that is reduced and read again in the kernel ties the kernel's
/// launch to its rows: a block of at most 1024 threads each, an item each on a CPU.
class DeltaEvaluator {
 public:
  DeltaEvaluator(const TensorProgram& program, const Target& target);

  /// A kernel of `exprs`, in program order, that stores `outputs`.
  Delta delta(std::span<const ExprId> exprs, std::span<const TensorId> outputs) const;

 private:
  /// How a kernel is laid out, whatever template builds it.
  struct Launch {
    double blocks = 1, threads = 1;  ///< threads: of all blocks; on a CPU items of work
    int64_t shared_bytes = 0;        ///< of a block
  };
  Launch launch_of(std::span<const ExprId> exprs) const;
  double compute_us(std::span<const ExprId> exprs, const Launch& launch) const;
  double memory_penalty_us(int64_t bytes, const Launch& launch) const;

  const TensorProgram& program_;
  const Target& target_;
  CostModel cost_;
  std::vector<double> memory_alone_us_, compute_alone_us_;  ///< by expression
};

}  // namespace weft
