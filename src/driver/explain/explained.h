#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "choice/measured_compositions.h"
#include "plan/fusion_plan.h"
#include "runtime/program.h"
#include "target/target.h"

namespace weft {

/// Registers of a thread.
using RegistersOf = std::map<const PlannedKernel*, int32_t>;

/// What there is to say about a compiled model: views of what its compilation has reached.
struct Explained {
  const std::string& model;
  const std::string& planner;
  int64_t ops = 0;  ///< nodes of the model
  const Target& target;
  const TensorProgram& tensors;
  const FusionPlan& plan;
  const MeasuredCompositions& measured;  ///< that the plan was made with
  /// Peak of the arena between kernels, as planned and with every expression a kernel of its own.
  int64_t planned_arena_bytes = 0, unfused_arena_bytes = 0;
  const std::vector<std::string>& substitutions;  ///< of --fast-math and --precision
  const std::vector<std::string>& device_notes;   ///< on kernels whose code spills registers
  const Program& program;                         ///< empty before there is code
  RegistersOf registers;                          ///< where there is code for a GPU
};

}  // namespace weft
