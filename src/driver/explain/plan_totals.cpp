#include "driver/explain/plan_totals.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "cost/estimate.h"
#include "driver/explain/kernel_summary.h"

namespace weft {

namespace {

struct Visitor {
  std::function<void(const TensorProgram&, const PlannedKernel&, int64_t times)> kernel;
  std::function<void(int64_t times)> opaque;  ///< a step without regions
};

void walk(const FusionPlan& plan, const TensorProgram& program, int64_t times, const Visitor& f) {
  for (const PlannedKernel& kernel : plan.kernels) f.kernel(program, kernel, times);
  for (size_t o = 0; o < plan.regions.size(); ++o) {
    const OpaqueExpr& opaque = program.opaques[o];
    if (opaque.regions.empty()) f.opaque(times);
    const int64_t inner = region_runs(program, opaque, plan.regions[o], times);
    for (size_t r = 0; r < plan.regions[o].size(); ++r)
      walk(*plan.regions[o][r], *opaque.regions[r], inner, f);
  }
}

}  // namespace

int64_t trip_count(const TensorProgram& program, const OpaqueExpr& opaque) {
  const auto* scan = std::get_if<ScanAttrs>(&opaque.node.attrs);
  if (scan == nullptr) return 1;
  const TensorId scanned = opaque.operands[static_cast<size_t>(scan->carry_count)];
  return declared_type(program.tensors[static_cast<size_t>(scanned)]).shape[0];
}

int64_t region_runs(const TensorProgram& program, const OpaqueExpr& opaque,
                    const RegionPlans& regions, int64_t times) {
  if (runs_whole_loop(regions)) return times;
  int64_t runs = 0;
  return __builtin_mul_overflow(times, trip_count(program, opaque), &runs) ? times : runs;
}

int64_t compulsory_bytes(const TensorProgram& program, const Target& target) {
  std::set<TensorId> stored(program.outputs.begin(), program.outputs.end());
  for (const OpaqueExpr& opaque : program.opaques)
    stored.insert(opaque.operands.begin(), opaque.operands.end());
  std::vector<ExprId> all(program.exprs.size());
  std::iota(all.begin(), all.end(), 0);
  const TensorUses uses = tensor_uses(program);
  std::erase_if(stored, [&](TensorId t) {
    const int32_t producer = uses.producer[static_cast<size_t>(t)];
    return producer < 0 || program.steps[static_cast<size_t>(producer)].opaque;
  });
  const std::vector<TensorId> outputs(stored.begin(), stored.end());
  const Estimate one = CostModel(program, target).estimate(all, outputs);
  return one.bytes_read + one.bytes_written;
}

PlanTotals plan_totals(const FusionPlan& plan, const TensorProgram& program, int64_t ops) {
  PlanTotals t;
  t.ops = ops;
  const auto add = [&](const TensorProgram&, const PlannedKernel& kernel, int64_t times) {
    const bool is_call = kernel.schedule.library || kernel.is_call;
    (is_call ? t.library_calls : kernel.is_compute ? t.compute_kernels : t.memory_kernels) += 1;
    t.launches += times;
    t.memory_launches += is_call || kernel.is_compute ? 0 : times;
    const Estimate& e = kernel.schedule.estimate;
    t.bytes_read += times * e.bytes_read;
    t.bytes_written += times * e.bytes_written;
    t.flops += times * e.flops;
    t.predicted_us += static_cast<double>(times) * e.microseconds;
  };
  const auto add_opaque = [&](int64_t times) {
    ++t.opaque_steps;
    t.launches += times;
  };
  walk(plan, program, 1, {add, add_opaque});
  return t;
}

PatternTotals pattern_totals(const FusionPlan& plan, const TensorProgram& program) {
  PatternTotals t;
  const auto add = [&](const TensorProgram& of, const PlannedKernel& kernel, int64_t) {
    const std::string_view pattern = pattern_name(of, kernel);
    ++(pattern == "gemm" ? t.gemm : pattern == "reduction" ? t.reduction : t.elementwise);
  };
  walk(plan, program, 1, {add, [](int64_t) {}});
  return t;
}

ArenaTotals arena_totals(const FusionPlan& plan, const TensorProgram& program) {
  ArenaTotals t;
  const auto add = [&](const TensorProgram&, const PlannedKernel& kernel, int64_t) {
    const auto arena = arena_summary(kernel);
    if (!arena) return;
    ++t.kernels;
    t.bytes += arena->allocated;
    t.requested += arena->requested;
    t.most = std::max(t.most, arena->allocated);
  };
  walk(plan, program, 1, {add, [](int64_t) {}});
  return t;
}

}  // namespace weft
