#include "driver/passes.h"

#include "driver/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assemble/arena_peak.h"
#include "assemble/build_program.h"
#include "codegen/cpu/code_features.h"
#include "cost/window_time.h"
#include "driver/compile_device_kernels.h"
#include "driver/explain/explain_json.h"
#include "driver/explain/explain_text.h"
#include "driver/generate_kernels.h"
#include "driver/loop_forms.h"
#include "driver/lower_kernels.h"
#include "driver/measured_rows.h"
#include "expr/express/express.h"
#include "expr/movement/assign_layouts.h"
#include "expr/movement/compose_arithmetic.h"
#include "expr/movement/fold_movement.h"
#include "expr/movement/index_masks.h"
#include "expr/movement/lend_constants.h"
#include "expr/movement/open_axes.h"
#include "expr/movement/order_sums.h"
#include "expr/movement/remove_dead_expressions.h"
#include "expr/movement/separate_outputs.h"
#include "expr/movement/sink_constants.h"
#include "expr/movement/sink_movement.h"
#include "expr/movement/split_axes.h"
#include "expr/movement/turn_rows.h"
#include "expr/movement/turn_windows.h"
#include "expr/movement/widen_where_read.h"
#include "expr/products/decode_weights.h"
#include "expr/products/fold_scales.h"
#include "expr/products/integer_products.h"
#include "expr/products/merge_products.h"
#include "expr/products/minimal_filtering.h"
#include "expr/products/multiply_words.h"
#include "expr/products/part_products.h"
#include "expr/products/read_bytes.h"
#include "expr/products/round_factors.h"
#include "expr/products/scale_sums.h"
#include "expr/products/weight_sources.h"
#include "expr/products/widen_halves.h"
#include "kernel/divide_by_invariants.h"
#include "kernel/order_products.h"
#include "kernel/prefetch_epilogues.h"
#include "kernel/prefetch_panels.h"
#include "kernel/prefetch_rows.h"
#include "kernel/prefetch_windows.h"
#include "kernel/share_literals.h"
#include "kernel/shorten_exponentials.h"
#include "kernel/stream_outputs.h"
#include "kernel/tabulate.h"
#include "plan/planners/plan_fusion.h"
#include "plan/planners/planner_parameters.h"
#include "rewrite/convolve_phases.h"
#include "rewrite/fold_constants.h"
#include "rewrite/hoist_from_scans.h"
#include "rewrite/hoist_invariants.h"
#include "rewrite/inline_constant_if.h"
#include "rewrite/merge_equal_nodes.h"
#include "rewrite/narrow_regions.h"
#include "rewrite/number_steps.h"
#include "rewrite/remove_dead_nodes.h"
#include "rewrite/roll_loops.h"
#include "rewrite/select_behind_products.h"
#include "rewrite/simplify_graph.h"
#include "rewrite/skew_scans.h"
#include "rewrite/split_scans.h"
#include "rewrite/unite_scans.h"
#include "rewrite/unroll_scans.h"
#include "runtime/thread_pool.h"
#include "support/for_each_in_parallel.h"
#include "target/multiplies_bfloat16.h"
#include "tile/word_dot.h"

namespace weft {

namespace {

/// A folded constant may be larger than its operands up to this size.
constexpr int64_t kFoldBytes = int64_t{1} << 16;
/// A constant up to this size is made in each region that reads it.
constexpr int64_t kNarrowBytes = 64;
/// Smaller values are computed again in each step of a loop, in registers.
constexpr int64_t kHoistedBytes = int64_t{16} << 10;
/// Reads of an expression that only moves, beyond which it is none of its readers.
constexpr int kMostBranches = 8;
/// Recurrences of more steps stay loops even with --unroll.
constexpr int64_t kUnrollTrips = 1024;
/// Of tensors that a device's kernels access in vectors.
constexpr int32_t kDeviceAlignment = 16;

Result<bool> run_fold_constants(Compilation& c) {
  return fold_constants(c.graph, kFoldBytes, !c.target.is_gpu());
}
Result<bool> run_inline_if(Compilation& c) { return inline_constant_if(c.graph); }
Result<bool> run_narrow_regions(Compilation& c) {
  return narrow_regions(c.graph, kNarrowBytes, c.target.is_gpu());
}
Result<bool> run_unroll(Compilation& c) {
  return c.options.unroll && unroll_scans(c.graph, kUnrollTrips);
}
/// On a GPU steps that are written out share launches: loops are planned beside them
/// (plan_loop_forms).
bool keeps_loops(const Compilation& c) {
  return !c.options.unroll && (c.rolls || !c.target.is_gpu());
}
Result<bool> run_roll(Compilation& c) {
  return keeps_loops(c) && (c.target.is_gpu() ? roll_loops(c.graph) : roll_steps(c.graph));
}
/// Layers that are a wavefront stay so.
Result<bool> run_split(Compilation& c) {
  return keeps_loops(c) && !c.skews && split_scans(c.graph);
}
Result<bool> run_number_steps(Compilation& c) { return number_steps(c.graph); }
Result<bool> run_hoist(Compilation& c) { return keeps_loops(c) && hoist_from_scans(c.graph); }
Result<bool> run_hoist_invariants(Compilation& c) {
  return keeps_loops(c) && hoist_invariants(c.graph, kHoistedBytes);
}
Result<bool> run_skew(Compilation& c) { return c.skews && skew_scans(c.graph); }
Result<bool> run_unite(Compilation& c) { return c.unites && unite_scans(c.graph); }
Result<bool> run_simplify(Compilation& c) { return simplify_graph(c.graph); }
Result<bool> run_merge_equal(Compilation& c) { return merge_equal_nodes(c.graph); }
Result<bool> run_select_behind_products(Compilation& c) {
  const std::vector<std::string> products = select_behind_products(c.graph);
  for (const std::string& name : products)
    c.substitutions.push_back(name + ": 0 for a row of NaN, also times what is not finite");
  return !products.empty();
}
Result<bool> run_convolve_phases(Compilation& c) {
  const ConvolvedPhases phases = convolve_phases(c.graph);
  for (const std::string& name : phases.filled)
    c.substitutions.push_back(name + ": zeros in the place of taps, also times what is not finite");
  return phases.changed;
}
Result<bool> run_remove_dead(Compilation& c) { return remove_dead_nodes(c.graph); }
Result<bool> run_express(Compilation& c) {
  WEFT_ASSIGN_OR_RETURN(c.tensors, express(c.graph));
  return true;
}

template <typename F>
void for_each_program(TensorProgram& program, F&& f) {
  f(program);
  for (OpaqueExpr& o : program.opaques) {
    for (auto& region : o.regions) for_each_program(*region, f);
  }
}

Result<bool> run_sink_constants(Compilation& c) {
  sink_constants(c.tensors);
  return true;
}

Result<bool> run_index_masks(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { index_masks(p); });
  return true;
}

Result<bool> run_fold_movement(Compilation& c) {
  for_each_program(c.tensors, [&](TensorProgram& p) {
    fold_movement(p, {.max_branches = kMostBranches,
                      .into_contractions = c.planner->moves_into_contractions,
                      .joins_pieces = c.target.is_gpu()});
  });
  return true;
}
Result<bool> run_compose_arithmetic(Compilation& c) {
  if (c.recompute <= 0) return false;
  const bool parts = c.merges_products && !c.target.is_gpu();
  for_each_program(c.tensors, [&](TensorProgram& p) { compose_arithmetic(p, c.recompute, parts); });
  return true;
}
Result<bool> run_split_axes(Compilation& c) {
  for_each_program(c.tensors, [&](TensorProgram& p) {
    split_axes(p, c.target.is_gpu() ? std::set<TensorId>{} : WeightSources(p).tensors());
  });
  return true;
}
Result<bool> run_compose_across_splits(Compilation& c) {
  if (c.recompute <= 0) return false;
  for_each_program(c.tensors, [&](TensorProgram& p) { compose_across_splits(p, c.recompute); });
  return true;
}
Result<bool> run_widen_where_read(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { widen_where_read(p); });
  return true;
}
Result<bool> run_sink_movement(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { sink_movement(p); });
  return true;
}
/// Lists what a pass does to the tensors that it returns.
template <typename Rewrite>
void substitute(Compilation& c, const Rewrite& pass, const char* what) {
  for_each_program(c.tensors, [&](TensorProgram& p) {
    for (const TensorId t : pass(p))
      c.substitutions.push_back(p.tensors[static_cast<size_t>(t)].name + what);
  });
}

Result<bool> run_integer_products(Compilation& c) {
  if (c.target.is_gpu()) return true;
  const int64_t depth = multiplies_bytes(c.target) ? kByteDotDepth : kWordDotDepth;
  const auto in_parts = [depth](TensorProgram& p) {
    std::vector<TensorId> made;
    integer_products(p, depth, &made);
    return made;
  };
  substitute(c, in_parts, ": its sum is made of parts that 32 bits hold");
  return true;
}
Result<bool> run_read_bytes(Compilation& c) {
  if (c.target.is_gpu()) return true;
  for_each_program(c.tensors, [](TensorProgram& p) { read_bytes(p); });
  return true;
}
Result<bool> run_fold_scales(Compilation& c) {
  if (c.target.is_gpu()) return true;
  substitute(c, fold_scales, ": its divisor is folded into scales before it");
  return true;
}
Result<bool> run_decode_weights(Compilation& c) {
  if (c.target.is_gpu()) return true;
  for_each_program(c.tensors, [](TensorProgram& p) { decode_weights(p); });
  return true;
}
Result<bool> run_round_factors(Compilation& c) {
  if (c.options.precision != Precision::kBFloat16) return false;
  substitute(c, round_factors, ": its factors are rounded to bfloat16");
  return true;
}
Result<bool> run_widen_operands(Compilation& c) {
  if (c.target.is_gpu()) return true;
  const bool in_pairs = multiplies_bfloat16(c.target);
  for_each_program(c.tensors, [&](TensorProgram& p) { widen_operands(p, in_pairs); });
  return true;
}
Result<bool> run_multiply_words(Compilation& c) {
  if (c.target.is_gpu() || multiplies_bytes(c.target)) return false;
  for_each_program(c.tensors, [](TensorProgram& p) { multiply_words(p); });
  return true;
}
Result<bool> run_scale_sums(Compilation& c) {
  if (!c.planner->composes_arithmetic) return false;
  substitute(c, scale_sums, ": it is scaled instead of its factors");
  return true;
}
Result<bool> run_merge_products(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { remove_dead_expressions(p); });
  const bool is_known = c.unfused_arena_bytes > 0;  // where the graph is expressed once more
  if (!is_known) c.unfused_arena_bytes = unfused_arena_peak(c.tensors, !c.target.is_gpu());
  if (!c.merges_products) return true;
  for_each_program(c.tensors, [](TensorProgram& p) { merge_products(p); });
  return true;
}
Result<bool> run_part_products(Compilation& c) {
  // Where a kernel holds one reduction, parts would be kernels of their own.
  const bool holds_several = c.planner->partition != partition_one_reduction;
  if (!c.merges_products || !holds_several || c.target.is_gpu()) return false;
  const int64_t lanes = c.target.lanes(byte_size(DType::kF32));
  for_each_program(c.tensors, [&](TensorProgram& p) { part_products(p, lanes); });
  return true;
}
Result<bool> run_remove_dead_expressions(Compilation& c) {
  for_each_program(c.tensors, [](TensorProgram& p) { remove_dead_expressions(p); });
  return true;
}
Result<bool> run_separate_outputs(Compilation& c) {
  if (c.target.is_gpu()) separate_outputs(c.tensors);
  return true;
}
Result<bool> run_assign_layouts(Compilation& c) {
  // A GPU's threads read and store maps as they lie about as quickly.
  const bool twins = !c.target.is_gpu();
  for_each_program(c.tensors, [&](TensorProgram& p) { assign_layouts(p, twins); });
  return true;
}
Result<bool> run_order_sums(Compilation& c) {
  // On a GPU what lies a page apart is read by threads side by side, or from shared memory.
  if (!c.target.is_gpu()) for_each_program(c.tensors, [](TensorProgram& p) { order_sums(p); });
  return true;
}
Result<bool> run_turn_rows(Compilation& c) {
  const bool open = c.options.fixed_sizes || c.other.valid();
  const int64_t cache = open ? 0 : c.target.l2_bytes;
  if (!c.target.is_gpu())
    for_each_program(c.tensors, [&](TensorProgram& p) { turn_rows(p, cache); });
  return true;
}
Result<bool> run_turn_windows(Compilation& c) {
  if (!c.target.is_gpu()) for_each_program(c.tensors, [](TensorProgram& p) { turn_windows(p); });
  return true;
}
Result<bool> run_lend_constants(Compilation& c) {
  return c.target.is_gpu() && lend_constants(c.tensors);
}
/// What depends on the dimensions that the model leaves open. Where the model at the other binding
/// is another program, nothing is known of it.
Result<bool> run_mark_open(Compilation& c) {
  const auto agrees = [&] {
    Compilation* other = other_binding_of(c);
    return other != nullptr && mark_open_axes(c.tensors, other->tensors);
  };
  if (agrees()) return true;
  c.other = c.begin_smaller ? c.begin_smaller() : OtherCompilation();
  if (agrees()) return true;
  c.other = {};
  return false;
}

/// Which sums are made so is decided here for a CPU, or by a plan's text for any target, and is the
/// same at other bindings.
Result<bool> run_filter_minimally(Compilation& c) {
  if (c.target.is_gpu() && !c.filtered) return false;
  const auto pays = [&](const WindowSum& sum) {
    if (c.filtered) return std::ranges::find(*c.filtered, sum.name) != c.filtered->end();
    return c.filter > 1 || (c.filter == 1 && pays_filtered(sum, c.target));
  };
  FilteredWeights filtered;
  std::vector<std::string> made;
  for_each_program(c.tensors, [&](TensorProgram& p) {
    for (const TensorId t : filter_minimally(p, pays, filtered))
      made.push_back(p.tensors[static_cast<size_t>(t)].name);
  });
  for (const std::string& name : made)
    c.substitutions.push_back(name + ": its windows are summed by minimal filtering, F(2, 3)");
  c.filtered = std::move(made);
  if (Compilation* other = other_binding_of(c); other != nullptr && !c.filtered->empty()) {
    for_each_program(other->tensors,
                     [&](TensorProgram& p) { filter_minimally(p, pays, filtered); });
  }
  return !c.filtered->empty();
}

bool has_grids(const FusionPlan& plan) {
  const auto is_grid = [](const PlannedKernel& kernel) {
    return kernel.schedule.composition.in_turns();
  };
  if (std::ranges::any_of(plan.kernels, is_grid)) return true;
  return std::ranges::any_of(plan.regions, [](const auto& regions) {
    return std::ranges::any_of(regions, [](const auto& inner) { return has_grids(*inner); });
  });
}

/// The compilation planned once more with the same passes, but for the merging of products. Takes
/// the other binding, which is then without them, too.
Result<Compilation> planned_unmerged(Compilation& c) {
  const std::span<const Pass> express = passes_between(kFirstExpressing, kLastExpressing);
  Compilation apart = begun_again(c);
  apart.merges_products = false;
  apart.unfused_arena_bytes = c.unfused_arena_bytes;
  apart.other = std::exchange(c.other, {});
  WEFT_RETURN_IF_ERROR(run_passes(apart, express));
  if (Compilation* other = other_binding_of(apart)) {
    other->merges_products = false;
    WEFT_RETURN_IF_ERROR(run_passes(*other, express));
  }
  WEFT_RETURN_IF_ERROR(run_passes(apart, passes_between("mark-open-axes", "plan")));
  return apart;
}

/// The program at the other binding as it is before planned_unmerged takes it.
class MergedAtOther {
 public:
  explicit MergedAtOther(const Compilation& c) {
    if (const Compilation* other = other_binding_of(c)) tensors_ = other->tensors;
  }

  /// Where the plan of `c` stays after all.
  bool give_back(Compilation& c, Compilation& apart) const {
    c.other = std::exchange(apart.other, {});
    Compilation* other = other_binding_of(c);
    if (other == nullptr || !tensors_) return true;
    other->merges_products = c.merges_products;
    other->tensors = *tensors_;
    return true;
  }

 private:
  std::optional<TensorProgram> tensors_;
};

/// The plan of a text, which chose before.
Result<bool> run_given_plan(Compilation& c) {
  auto plan = parse_plan(c.options.plan_text, c.tensors, c.target);
  if (!plan.ok()) return of_plan_file(c.options, plan.take_error());
  c.plan = std::move(*plan);
  c.planned_arena_bytes = arena_peak(c.tensors, c.plan);
  return true;
}

/// The part of the second-level cache below which it does not matter what an arena takes.
constexpr int64_t kFreeOfCache = 16;
/// The part of an arena that launches apart have to save where it is too large either way.
constexpr int64_t kShareOfArena = 16;

Result<bool> run_planner(Compilation& c) {
  PlanOptions options;
  options.planner = c.options.planner;
  options.compositions = c.options.compositions;
  options.parameters = c.options.planner_parameters;
  options.compute_as_calls = c.options.compute_as_calls;
  options.cancel = c.options.cancel;
  options.measured = &c.measured;
  options.memory = c.planning.get();
  WEFT_ASSIGN_OR_RETURN(c.plan, plan_fusion(c.tensors, c.target, options));
  c.planned_arena_bytes = arena_peak(c.tensors, c.plan);
  const bool may_part = c.target.is_gpu() && has_grids(c.plan) && !c.planner->joins_launches;
  const int64_t most = std::max(c.unfused_arena_bytes, c.target.l2_bytes / kFreeOfCache);
  if (may_part && c.options.compositions.empty() && c.planned_arena_bytes > most) {
    // What kernels in one launch hand each other all lives as long as the launch.
    options.compositions = "leaf,block,chain";
    WEFT_ASSIGN_OR_RETURN(FusionPlan apart, plan_fusion(c.tensors, c.target, options));
    const int64_t bytes = arena_peak(c.tensors, apart);
    const int64_t saved = c.planned_arena_bytes - bytes;
    if (saved > 0 && (bytes <= most || saved * kShareOfArena >= c.planned_arena_bytes)) {
      c.plan = std::move(apart);
      c.planned_arena_bytes = bytes;
    }
  }
  const bool may_unmerge = c.merges_products && c.planner->unmerges_for_arena;
  if (!may_unmerge || c.planned_arena_bytes <= c.unfused_arena_bytes) return true;
  const MergedAtOther merged(c);
  WEFT_ASSIGN_OR_RETURN(Compilation apart, planned_unmerged(c));
  const int64_t spared = c.planned_arena_bytes - apart.planned_arena_bytes;
  if (spared <= 0) return merged.give_back(c, apart);
  const auto predicted = [](const Compilation& planned) {
    return plan_totals(planned.plan, planned.tensors, 0).predicted_us;
  };
  // Where neither keeps below the unfused kernels, a few bytes are worth no time.
  const bool keeps_below = apart.planned_arena_bytes <= c.unfused_arena_bytes;
  const bool is_little = spared <= c.target.l2_bytes / kFreeOfCache;
  if (!keeps_below && is_little && predicted(apart) > predicted(c))
    return merged.give_back(c, apart);
  c.tensors = std::move(apart.tensors);
  c.plan = std::move(apart.plan);
  c.plan.unmerged = true;
  c.other = std::move(apart.other);
  c.filtered = std::move(apart.filtered);
  c.planned_arena_bytes = apart.planned_arena_bytes;
  return true;
}

Result<bool> run_plan(Compilation& c) {
  c.measured = measured_on(c.options, c.target);
  if (!c.options.plan_text.empty()) {
    WEFT_RETURN_IF_ERROR(take_given_forms(c));
    return run_given_plan(c);
  }
  if (!c.planning) c.planning = std::make_shared<PlanningMemory>(c.target, &c.measured);
  WEFT_ASSIGN_OR_RETURN(const bool planned, run_planner(c));
  WEFT_RETURN_IF_ERROR(plan_loop_forms(c));
  c.planning.reset();
  const bool is_given =
      c.planner->composes_arithmetic && c.recompute != PlannerParameters().recompute;
  if (is_given) c.plan.recompute = c.recompute;
  if (c.filtered) c.plan.filtered = *c.filtered;
  return planned;
}

Result<bool> run_lower(Compilation& c) {
  WEFT_RETURN_IF_ERROR(lower_kernels(c));
  for (const KernelFunction* f : functions_of(c)) {
    if (multiplies_by(*f, KernelUnit::kM16N8K8TF32))
      c.substitutions.push_back(f->name + ": products of float32 are rounded to tf32");
  }
  return true;
}

/// What a rewrite did to a kernel.
struct Rewritten {
  bool changed = false;
  std::string substitution;  ///< of --fast-math, for the plan; may be empty
};

/// Rewrites of kernels for a CPU, side by side: `rewrite` sees each of them.
template <typename F>
Result<bool> rewrite_kernels(Compilation& c, F&& rewrite) {
  if (c.target.is_gpu()) return false;
  std::vector<Rewritten> done(c.kernels.size());
  std::vector<Status> verified(c.kernels.size());
  for_each_in_parallel(c.kernels.size(), available_cores(), [&](size_t k) {
    KernelFunction& f = c.kernels[k].function;
    done[k] = rewrite(f);
    if (done[k].changed && c.options.verify) verified[k] = verify_kernel(f);
  });
  bool changed = false;
  for (size_t k = 0; k < done.size(); ++k) {
    WEFT_RETURN_IF_ERROR(std::move(verified[k]));
    changed |= done[k].changed;
    if (!done[k].substitution.empty()) c.substitutions.push_back(std::move(done[k].substitution));
  }
  return changed;
}
/// Of a rewrite that says whether it changed the kernel.
template <bool (*kRewrite)(KernelFunction&, const Target&)>
Result<bool> run_on_kernels(Compilation& c) {
  return rewrite_kernels(c,
                         [&](KernelFunction& f) { return Rewritten{kRewrite(f, c.target), {}}; });
}
Result<bool> run_divide_by_invariants(Compilation& c) {
  const auto& features = c.target.features;
  if (std::find(features.begin(), features.end(), "fma") == features.end()) return false;
  return rewrite_kernels(c, [&](KernelFunction& f) {
    const int replaced = divide_by_invariants(f, c.options.fast_math);
    Rewritten out{replaced != 0, {}};
    if (replaced != 0 && c.options.fast_math) {
      out.substitution = fmt::format(
          "{}: divisions by what a loop does not change are products: {}", f.name, replaced);
    }
    return out;
  });
}
Result<bool> run_shorten_exponentials(Compilation& c) {
  if (!c.options.fast_math) return false;
  return rewrite_kernels(c, [&](KernelFunction& f) {
    const int shortened = shorten_exponentials(f, c.target);
    Rewritten out{shortened != 0, {}};
    if (shortened != 0)
      out.substitution =
          fmt::format("{}: exponentials by the shorter recipe: {}", f.name, shortened);
    return out;
  });
}

Result<bool> run_tabulate(Compilation& c) {
  return rewrite_kernels(
      c, [&](KernelFunction& f) { return Rewritten{tabulate(f, c.target) != 0, {}}; });
}

void note_input_ranges(const ImportedModel& model, Program& program) {
  for (const ImportedInput& input : model.inputs) {
    if (input.graph_input < 0 || !input.range) continue;
    ProgramIo& io = program.inputs[static_cast<size_t>(input.graph_input)];
    io.drawn = input.drawn;
    io.lowest = input.range->lo;
    io.highest = input.range->hi;
  }
}

Result<bool> run_share_literals(Compilation& c) {
  if (c.target.is_gpu()) return false;
  std::vector<KernelOfLaunches> kernels;
  for (CompiledKernel& kernel : c.kernels) {
    if (!kernel.known_code && kernel.planned != nullptr)
      kernels.push_back({&kernel.function, &kernel.arguments});
  }
  std::vector<size_t> before;
  for (const CompiledKernel& kernel : c.kernels) before.push_back(kernel.arguments.size());
  const bool changed = share_literals(kernels) > 0;
  for (size_t k = 0; k < c.kernels.size(); ++k)
    c.kernels[k].literals += c.kernels[k].arguments.size() - before[k];
  return changed;
}
Result<bool> run_generate(Compilation& c) {
  const std::shared_ptr<EntryCache> cache = open_cache(c.options);
  const auto generate = [&]() -> Result<std::vector<KernelImage>> {
    if (!c.target.is_gpu()) return generate_kernels(c, cache.get());
    if (!c.options.device_code) return describe_device_kernels(c);
    return compile_device_kernels(c, cache.get());
  };
  WEFT_ASSIGN_OR_RETURN(std::vector<KernelImage> images, generate());
  if (cache != nullptr) {
    WEFT_ASSIGN_OR_RETURN(c.files, ModelFiles::identify(c.imported.files, c.options.verify_cache));
  }
  LayoutOptions constants{available_cores(), cache.get(), {}};
  constants.content_key = [&c](const HostTensor& value) { return c.files.content_key(value); };
  WEFT_ASSIGN_OR_RETURN(BuiltProgram built,
                        build_program(c.tensors, c.plan, code_of_plan(c), c.target, constants));
  if (cache != nullptr) cache->trim();
  c.program = std::move(built.program);
  c.cached_constants = std::move(built.cached_constants);
  c.program.kernels = std::move(images);
  if (c.target.is_gpu()) {
    for (auto* list : {&c.program.inputs, &c.program.outputs}) {
      for (ProgramIo& io : *list) io.alignment = kDeviceAlignment;
    }
    if (c.options.device_code) c.program.arch = device_arch(c.target);
  }
  note_input_ranges(c.imported, c.program);
  c.program.model = c.model;
  c.program.target = c.target.name;
  if (!c.program.kernels.empty() && !c.target.is_gpu())
    c.program.required_features = required_features(c.target, functions_of(c));
  const Explained plan = explained(c);
  std::string texts[2];
  for_each_in_parallel(2, available_cores(), [&](size_t k) {
    texts[k] = k == 0 ? explain_text(plan) : explain_json(plan);
  });
  c.program.explanation = std::move(texts[0]);
  c.program.explanation_json = std::move(texts[1]);
  return true;
}

constexpr Pass kPasses[] = {
    // Those over the graph run until a round changes nothing.
    {"fold-constants", "graph", run_fold_constants},
    {"inline-constant-if", "graph", run_inline_if},
    {"narrow-regions", "graph", run_narrow_regions},
    {"unroll-scans", "graph", run_unroll},
    {"simplify", "graph", run_simplify},
    {"select-behind-products", "graph", run_select_behind_products},
    {"convolve-phases", "graph", run_convolve_phases},
    {"merge-equal-nodes", "graph", run_merge_equal},
    {"remove-dead-nodes", "graph", run_remove_dead},
    {"number-steps", "graph", run_number_steps},
    {"split-scans", "graph", run_split},
    {"roll-loops", "graph", run_roll},
    {"hoist-from-scans", "graph", run_hoist},
    {"hoist-invariants", "graph", run_hoist_invariants},
    {"skew-scans", "graph", run_skew},
    {"unite-scans", "graph", run_unite},
    {"express", "tensor-program", run_express},
    {"sink-constants", "tensor-program", run_sink_constants},
    {"fold-movement", "tensor-program", run_fold_movement},
    {"index-masks", "tensor-program", run_index_masks},
    {"compose-arithmetic", "tensor-program", run_compose_arithmetic},
    {"split-axes", "tensor-program", run_split_axes},
    {"compose-across-splits", "tensor-program", run_compose_across_splits},
    {"widen-where-read", "tensor-program", run_widen_where_read},
    {"sink-movement", "tensor-program", run_sink_movement},
    {"integer-products", "tensor-program", run_integer_products},
    {"read-bytes", "tensor-program", run_read_bytes},
    {"fold-scales", "tensor-program", run_fold_scales},
    {"decode-weights", "tensor-program", run_decode_weights},
    {"round-factors", "tensor-program", run_round_factors},
    {"widen-operands", "tensor-program", run_widen_operands},
    {"multiply-words", "tensor-program", run_multiply_words},
    {"scale-sums", "tensor-program", run_scale_sums},
    {"merge-products", "tensor-program", run_merge_products},
    {"part-products", "tensor-program", run_part_products},
    {"remove-dead-expressions", "tensor-program", run_remove_dead_expressions},
    {"separate-outputs", "tensor-program", run_separate_outputs},
    {"assign-layouts", "tensor-program", run_assign_layouts},
    {"turn-windows", "tensor-program", run_turn_windows},
    {"turn-rows", "tensor-program", run_turn_rows},
    {"order-sums", "tensor-program", run_order_sums},
    {"lend-constants", "tensor-program", run_lend_constants},
    {"mark-open-axes", "tensor-program", run_mark_open},
    {"filter-minimally", "tensor-program", run_filter_minimally},
    {"plan", "plan", run_plan},
    {"lower", "kernel", run_lower},
    {"stream-outputs", "kernel", run_on_kernels<stream_outputs>},
    {"prefetch-rows", "kernel", run_on_kernels<prefetch_rows>},
    {"prefetch-panels", "kernel", run_on_kernels<prefetch_panels>},
    {"prefetch-windows", "kernel", run_on_kernels<prefetch_windows>},
    {"prefetch-epilogues", "kernel", run_on_kernels<prefetch_epilogues>},
    {"divide-by-invariants", "kernel", run_divide_by_invariants},
    {"shorten-exponentials", "kernel", run_shorten_exponentials},
    {"tabulate", "kernel", run_tabulate},
    {"order-products", "kernel", run_on_kernels<order_products>},
    {"share-literals", "kernel", run_share_literals},
    {"generate", "code", run_generate},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

std::span<const Pass> passes_between(std::string_view first, std::string_view last) {
  const auto named = [](std::string_view name) {
    const Pass* pass = std::ranges::find(kPasses, name, &Pass::name);
    WEFT_CHECK(pass != std::end(kPasses), "there is no pass " + std::string(name));
    return pass;
  };
  const Pass *begin = named(first), *end = named(last) + 1;
  WEFT_CHECK(begin < end, std::string(last) + " runs before " + std::string(first));
  return {begin, end};
}

std::string last_pass_of(const std::vector<std::string>& levels) {
  const auto is_asked_for = [&](std::string_view level) {
    return std::ranges::find(levels, level) != levels.end();
  };
  std::string last;
  for (const Pass& pass : kPasses) {
    const std::string_view level(pass.level);
    if (is_asked_for(level) || (level == "plan" && is_asked_for("tile-program"))) last = pass.name;
  }
  return last;
}

}  // namespace weft
