#pragma once

#include <map>
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

/// What a template of a CPU chose: axes are common axes of the group's view
/// (schedule/group_axes.h), reads are numbered in the order of the reduction's body.
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

/// Whether some template can hold the group in one kernel: cheap, decides legality while planning.
/// The reason names the two expressions and the axes that do not agree.
Decision can_schedule(const TensorProgram& program, const Group& group, const Target& target);

/// Whether the group holds a contraction and reductions of its results: how quick the product is
/// depends on the tile that these leave it.
bool reduces_behind_product(const TensorProgram& program, const Group& group);

/// What the group takes by the model that a GPU's product is tiled by; nothing where it holds no
/// product that goes through tiles.
std::optional<double> predicted_product_us(const TensorProgram& program, const Group& group,
                                           const Target& target);

/// What the group takes as a library call of a target that names the library; nothing where it is
/// none.
std::optional<double> predicted_library_us(const TensorProgram& program, const Group& group,
                                           const Target& target);

/// Whether the template that reduces rows along themselves and across each other holds the group:
/// then one kernel reads the rows once, though its reductions hand each other nothing.
Decision can_reduce_both_ways(const TensorProgram& program, const Group& group,
                              const Target& target);

/// The best tile program among the templates' candidates for a group that can_schedule allows.
Result<ScheduledKernel> schedule_group(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name);

/// The tile program of a CPU with choices made for the same group at another binding. The error
/// says what does not fit.
Result<TileProgram> schedule_as_chosen(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name,
                                       const ScheduleChoices& choices);

}  // namespace weft
