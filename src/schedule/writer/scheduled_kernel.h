#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "choice/choice.h"
#include "cost/estimate.h"
#include "target/library_call.h"
#include "tile/scope_analysis.h"

namespace weft {

/// A group with its chosen tile program. Parameter i of the program is tensor parameters[i]; a
/// constant may be wanted in a layout other than row-major (packed panels): the parameter's layout
/// says so.
struct ScheduledKernel {
  TileProgram program;
  ScopeAnalysis scopes;
  std::vector<TensorId> parameters;
  /// Of a kernel for all groups of a key: by the numbers that stand for names, what was asked for.
  std::vector<std::string> asked_names;
  std::string schedule_template;  ///< "rows", "columns", "contract", …: how it was built
  /// What runs in the place of the tile program on a device that has the library.
  std::optional<LibraryCall> library;
  /// Constants whose axes are wanted in another order: their parameters have them in it.
  std::map<TensorId, Layout> orders;
  Estimate estimate;
  /// Bytes that its kernels and stages read of each parameter, each on its own; empty before its
  /// traffic is estimated.
  std::vector<int64_t> parameter_reads;
  /// By the template's own model of what it chose; then also estimate.microseconds.
  std::optional<double> predicted_us;
  /// By the template's model of how it laid the group out: compares schedules of one group only.
  double layout_us = 0;
  std::string measured;     ///< the row of the performance library that decided; empty: none did
  Composition composition;  ///< what was chosen: builds the same program again
};

}  // namespace weft
