#pragma once

#include <map>
#include <optional>
#include <vector>

#include "assemble/lay_out_constants.h"
#include "kernel/kernel_function.h"
#include "plan/fusion_plan.h"
#include "runtime/program.h"

namespace weft {

/// Generated code of a plan's kernel: the lowered function (for its buffers, phases and scratch)
/// and which image of Program::kernels it is, with which arguments.
struct KernelCode {
  const KernelFunction* function = nullptr;
  int32_t image = -1;
  std::vector<int64_t> arguments;  ///< of its launches
};
/// Of the kernels of a plan and of its regions' plans.
using CodeOfPlan = std::map<const PlannedKernel*, KernelCode>;

struct BuiltProgram {
  Program program;
  /// By constant: its key in the cache folder, when it is a view of a file there.
  std::vector<std::optional<Hash128>> cached_constants;
};

/// Puts a plan's launches, host operations, branches and loops into order over numbered buffers:
/// arena placement by liveness, constants laid out as their readers want them, barriers only where
/// data crosses threads. Kernel images are left to the caller.
Result<BuiltProgram> build_program(const TensorProgram& tensors, const FusionPlan& plan,
                                   const CodeOfPlan& code, const Target& target,
                                   const LayoutOptions& constants);

}  // namespace weft
