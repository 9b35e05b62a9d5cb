#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost/estimate.h"
#include "expr/tensor_program.h"
#include "support/result.h"
#include "target/library_call.h"
#include "target/target.h"
#include "tile/scopes.h"
#include "tile/tile_program.h"

namespace weft {

/// Expressions that share a kernel, in program order, and which of their tensors must reach memory.
struct Group {
  std::vector<ExprId> exprs;
  std::vector<TensorId> outputs;
};

/// A group with its chosen tile program. Parameter i of the program is tensor parameters[i]; a
/// constant may be wanted in a layout other than row-major (packed panels): the parameter's layout
/// says so.
struct ScheduledKernel {
  TileProgram program;
  ScopeAnalysis scopes;
  std::vector<TensorId> parameters;
  std::string schedule_template;  ///< "rows", "columns", "contract", …: how it was built
  /// What runs in the place of the tile program on a device that has the library.
  std::optional<LibraryCall> library;
  Estimate estimate;
  /// By the template's own model of what it chose; then also estimate.microseconds.
  std::optional<double> predicted_us;
};

/// Whether some template can hold the group in one kernel: cheap, decides legality while planning.
/// The reason names the two expressions and the axes that do not agree.
Decision can_schedule(const TensorProgram& program, const Group& group, const Target& target);

/// The best tile program among the templates' candidates for a group that can_schedule allows.
Result<ScheduledKernel> schedule_group(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name);

}  // namespace weft
