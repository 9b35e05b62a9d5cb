#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cost/estimate.h"
#include "target/library_call.h"
#include "tile/scope_analysis.h"

namespace weft {

/// What a template of a CPU chose: axes are common axes of the group's view
/// (group/group_axes.h), reads are numbered in the order of the reduction's body.
struct ScheduleChoices {
  bool contract = false;
  std::vector<int> grid;   ///< outermost first
  std::vector<int> inner;  ///< swept or reduced axes in loop order
  int vec_axis = -1, row_axis = -1;
  int64_t rows = 1, vectors = 1, lanes = 1;
  // Stitch.
  bool row_vector = true, chunked = false;
  std::vector<bool> kept;  ///< by expression
  // Contract.
  std::vector<int64_t> vec_strides;       ///< by read
  std::vector<bool> constants_in_panels;  ///< by read
  int packed_read = -1;
  bool rows_outermost = false;
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
  /// Constants whose axes are wanted in another order: their parameters have them in it.
  std::map<TensorId, Layout> orders;
  Estimate estimate;
  /// By the template's own model of what it chose; then also estimate.microseconds.
  std::optional<double> predicted_us;
  /// By the template's model of how it laid the group out: compares schedules of one group only.
  double layout_us = 0;
  ScheduleChoices choices;
};

}  // namespace weft
