#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "expr/tensor_program.h"
#include "plan/fusion_plan.h"

namespace weft {

/// What one step of a program reads and stores. A launch of several phases, between which all of
/// its threads meet, stores and reads a tensor in some of them.
struct StepTensors {
  std::vector<TensorId> reads, makes;
  int32_t phases = 1;
  /// Tensors that the step makes, with the phases that it first stores and last touches them in. Of
  /// the others nothing is known.
  struct Own {
    TensorId tensor = -1;
    int32_t first = 0, last = 0;
  };
  std::vector<Own> own;
};

StepTensors tensors_of(const PlannedKernel& kernel);
StepTensors tensors_of(const OpaqueExpr& opaque);

/// Positions of all phases of all steps, one after another.
struct Lifetimes {
  std::vector<std::pair<int32_t, int32_t>> steps;  ///< first and last position, by step
  /// By tensor, both included: where it is needed. What only one launch touches is not needed
  /// before it is stored or behind its last reader there; else a launch needs all of its tensors
  /// from its beginning to its end.
  std::vector<std::pair<int32_t, int32_t>> tensors;
  int32_t end = 0;  ///< behind the last step
};
Lifetimes lifetimes_of(size_t tensor_count, std::span<const StepTensors> steps);

}  // namespace weft
