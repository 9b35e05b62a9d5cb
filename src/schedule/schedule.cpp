#include "schedule/schedule.h"

#include <algorithm>
#include <numeric>

#include "expr/dependence.h"
#include "group/collapse_axes.h"
#include "group/strides.h"
#include "group/widen_halves.h"
#include "schedule/calls/library_call.h"
#include "schedule/cpu/templates.h"
#include "schedule/gpu/matrix_product.h"
#include "schedule/gpu/templates.h"
#include "schedule/writer/tile_builder.h"
#include "support/check.h"
#include "tile/analysis/derive_scopes.h"

namespace weft {

namespace {

/// Whether the group's one reduction is a product of matrix and vector whose matrix lies along the
/// reduction: it is read once, so there is nothing to hold in a register tile, and its rows are
/// reduced like any others. Constants are not meant, they are packed along the output instead.
/// On a GPU nothing is packed, and a matrix along its columns is reduced just as well.
bool streams_an_operand(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                        const Target& target) {
  if (axes.reductions.size() != 1) return false;
  const int root = axes.reductions[0];
  const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(root)])];
  const Scalar* largest = nullptr;
  int64_t most = 0;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead || axes.producer(s.symbol) >= 0) return;
    const int64_t elements = distinct_elements(program, e, s);
    if (elements <= most) return;
    most = elements;
    largest = &s;
  });
  if (largest == nullptr) return false;
  // Windows that overlap read elements again; padding alone reads fewer than there are points.
  int64_t points = 1;
  for (int a = 0; a < e.axis_count(); ++a) points *= e.range(a).hi + 1;
  if (target.is_gpu() && most <= points / 2) return false;
  if (!target.is_gpu() &&
      program.tensors[static_cast<size_t>(largest->symbol)].kind == Tensor::Kind::kConstant)
    return false;
  bool along = false;
  for (size_t a = 0; a < axes.axes.size(); ++a) {
    if (axes.axes[a].extent == 1) continue;
    const int64_t stride = stride_along(program, axes, root, *largest, static_cast<int>(a));
    if (stride == 0) return false;
    along |= stride == 1 && axes.axes[a].reduced;
  }
  return along || target.is_gpu();
}

/// A reduction goes to the register-tiled template when a product or a window is read again along
/// an output axis, or when its vector axis is an output axis; a plain row or column reduction is
/// stitched.
bool prefers_contract(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                      const Target& target) {
  if (axes.reductions.size() != 1) return false;
  const TensorExpr& e =
      program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(axes.reductions[0])])];
  if (e.is_contraction) return !streams_an_operand(program, group, axes, target);
  bool window = false;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    for (const IndexExpr& i : s.indices) {
      const std::vector<int> used = variables(i);
      window |= used.size() > 1 && used.front() < e.output_rank() && used.back() >= e.output_rank();
    }
  });
  return window;
}

}  // namespace

bool fits_axes(const ScheduleChoices& choices, const GroupAxes& axes) {
  std::vector<bool> in_grid(axes.axes.size(), false), inner(axes.axes.size(), false);
  const auto mark = [&](int axis, std::vector<bool>* kind) {
    if (axis < 0) return true;
    if (axis >= static_cast<int>(axes.axes.size())) return false;
    (*kind)[static_cast<size_t>(axis)] = true;
    return true;
  };
  for (const int a : choices.grid) {
    if (!mark(a, &in_grid)) return false;
  }
  for (const int a : choices.inner) {
    if (!mark(a, &inner)) return false;
  }
  if (!mark(choices.row_axis, &in_grid)) return false;
  const bool swept = choices.vec_axis >= 0 &&
                     std::ranges::find(choices.inner, choices.vec_axis) != choices.inner.end();
  if (!swept && !mark(choices.vec_axis, &in_grid)) return false;
  for (size_t a = 0; a < axes.axes.size(); ++a) {
    if (axes.axes[a].extent == 1) continue;
    if (axes.axes[a].reduced ? !inner[a] : !inner[a] && !in_grid[a]) return false;
  }
  return true;
}

bool reduces_behind_product(const TensorProgram& program, const Group& group) {
  const auto count = [&](const auto& is) {
    return std::ranges::count_if(
        group.exprs, [&](ExprId e) { return is(program.exprs[static_cast<size_t>(e)]); });
  };
  return count([](const TensorExpr& e) { return e.is_contraction; }) > 0 &&
         count([](const TensorExpr& e) { return !e.reduce_extents.empty(); }) > 1;
}

Decision can_reduce_both_ways(const TensorProgram& program, const Group& group,
                              const Target& target) {
  const auto reductions = std::count_if(group.exprs.begin(), group.exprs.end(), [&](ExprId e) {
    return !program.exprs[static_cast<size_t>(e)].reduce_extents.empty();
  });
  if (!target.is_gpu() || reductions < 2) {
    return Decision::forbid("the group does not reduce in two ways");
  }
  for (const ExprId e : group.exprs) {
    if (program.exprs[static_cast<size_t>(e)].is_contraction) {
      return Decision::forbid("a contraction is not stitched");
    }
  }
  // Of the axes that it is built with.
  const GroupView view = collapse_axes(program, group);
  auto axes = derive_group_axes(view.program, view.group);
  if (!axes.ok()) return Decision::forbid(axes.error().message);
  return two_ways_apply(view.program, view.group, *axes, target);
}

Decision can_schedule(const TensorProgram& program, const Group& group, const Target& target) {
  if (target.is_gpu() && reduces_behind_product(program, group)) {
    const GroupView view = collapse_axes(program, group);
    const auto of_view = derive_group_axes(view.program, view.group);
    if (!of_view.ok()) return Decision::forbid(of_view.error().message);
    return reductions_behind_product(view.program, view.group, *of_view, target);
  }
  auto axes = derive_group_axes(program, group);
  if (!axes.ok()) return Decision::forbid(axes.error().message);
  bool contraction = false;
  for (const ExprId e : group.exprs)
    contraction |= program.exprs[static_cast<size_t>(e)].is_contraction;
  Decision stitch = contraction && !streams_an_operand(program, group, *axes, target)
                        ? Decision::forbid("a contraction is not stitched")
                        : stitch_applies(program, group, *axes, target);
  if (!stitch && can_reduce_both_ways(program, group, target)) return Decision::allow();
  if (axes->reductions.empty() || (stitch && !prefers_contract(program, group, *axes, target)))
    return stitch;
  Decision contract = contract_applies(program, group, *axes, target);
  if (contract || contraction) return contract;
  return stitch;
}

Result<ScheduledKernel> schedule_group(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name) {
  std::map<TensorId, Layout> orders = library_orders(program, group, target);
  const GroupView view = collapse_axes(program, group, orders);
  WEFT_ASSIGN_OR_RETURN(const GroupAxes axes, derive_group_axes(view.program, view.group));
  const bool contract = (target.is_gpu() && reduces_behind_product(view.program, view.group)) ||
                        (prefers_contract(view.program, view.group, axes, target) &&
                         contract_applies(view.program, view.group, axes, target));
  const Decision stitch = stitch_applies(view.program, view.group, axes, target);
  const bool both = target.is_gpu() && !contract && !stitch &&
                    two_ways_apply(view.program, view.group, axes, target);
  // A plan was made for the order of the program's axes, here they lie as in memory.
  WEFT_CHECK(contract || both || stitch, "kernel " + name + ": " + stitch.reason());
  GroupView wide = view;
  widen_halves(&wide, target);
  const auto build = [&]() {
    if (target.is_gpu()) {
      const auto on_threads = contract ? build_thread_contract
                              : both   ? build_two_way_stitch
                                       : build_thread_stitch;
      return on_threads(wide.program, wide.group, axes, target, name);
    }
    const auto on_cores = contract ? build_contract : build_stitch;
    return on_cores(wide.program, wide.group, axes, target, name, nullptr);
  };
  Result<ScheduledKernel> kernel = build();
  if (!kernel.ok()) return kernel.take_error();
  WEFT_ASSIGN_OR_RETURN(kernel->scopes, derive_scopes(kernel->program));
  kernel->estimate = CostModel(view.program, target).estimate(view.group.exprs, view.group.outputs);
  kernel->library =
      library_call(view.program, view.group, axes, kernel->estimate, kernel->parameters, target);
  if (kernel->library) {
    kernel->schedule_template = library_of(*kernel->library);
    kernel->estimate.microseconds = library_us(*kernel->library, kernel->estimate, target);
  } else if (kernel->predicted_us) {
    kernel->estimate.microseconds = *kernel->predicted_us;
  }
  for (TensorId& t : kernel->parameters) t = view.original[static_cast<size_t>(t)];
  kernel->orders = std::move(orders);
  return kernel;
}

std::optional<double> predicted_library_us(const TensorProgram& program, const Group& group,
                                           const Target& target) {
  if (target.libraries.empty()) return std::nullopt;
  const GroupView view = collapse_axes(program, group, library_orders(program, group, target));
  const auto axes = derive_group_axes(view.program, view.group);
  if (!axes.ok()) return std::nullopt;
  const Estimate estimate =
      CostModel(view.program, target).estimate(view.group.exprs, view.group.outputs);
  std::vector<TensorId> tensors(view.program.tensors.size());
  std::iota(tensors.begin(), tensors.end(), 0);
  const auto call = library_call(view.program, view.group, *axes, estimate, tensors, target);
  if (!call) return std::nullopt;
  return library_us(*call, estimate, target);
}

std::optional<double> predicted_product_us(const TensorProgram& program, const Group& group,
                                           const Target& target) {
  GroupView view = collapse_axes(program, group);
  widen_halves(&view, target);
  const auto axes = derive_group_axes(view.program, view.group);
  if (!axes.ok() || axes->reductions.empty()) return std::nullopt;
  const auto tiled = tiled_product(view.program, view.group, *axes, target);
  if (!tiled.ok()) return std::nullopt;
  return tiled->tile.microseconds;
}

Result<TileProgram> schedule_as_chosen(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name,
                                       const ScheduleChoices& choices) {
  GroupView view = collapse_axes(program, group);
  widen_halves(&view, target);
  WEFT_ASSIGN_OR_RETURN(const GroupAxes axes, derive_group_axes(view.program, view.group));
  const auto build = choices.contract ? build_contract : build_stitch;
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel,
                        build(view.program, view.group, axes, target, name, &choices));
  return std::move(kernel.program);
}

}  // namespace weft
