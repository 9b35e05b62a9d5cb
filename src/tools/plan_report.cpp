#include "tools/plan_report.h"

#include <set>

namespace weft {

namespace {

/// Calls f(kernel, times that it runs).
template <typename F>
void for_each_kernel(const FusionPlan& plan, const TensorProgram& program, int64_t times, F&& f) {
  for (const PlannedKernel& kernel : plan.kernels) f(kernel, times);
  for (size_t o = 0; o < plan.regions.size(); ++o) {
    const OpaqueExpr& opaque = program.opaques[o];
    int64_t inner = 0;
    if (__builtin_mul_overflow(times, trip_count(program, opaque), &inner)) inner = times;
    for (size_t r = 0; r < plan.regions[o].size(); ++r)
      for_each_kernel(*plan.regions[o][r], *opaque.regions[r], inner, f);
  }
}

}  // namespace

int64_t trip_count(const TensorProgram& program, const OpaqueExpr& opaque) {
  const auto* scan = std::get_if<ScanAttrs>(&opaque.node.attrs);
  if (scan == nullptr) return 1;
  const TensorId scanned = opaque.operands[static_cast<size_t>(scan->carry_count)];
  return declared_type(program.tensors[static_cast<size_t>(scanned)]).shape[0];
}

PlanTotals plan_totals(const Compilation& c) {
  PlanTotals t;
  t.ops = c.imported.node_count > 0 ? c.imported.node_count
                                    : static_cast<int64_t>(c.graph.nodes.size());
  for_each_kernel(c.plan, c.tensors, 1, [&](const PlannedKernel& kernel, int64_t times) {
    (kernel.is_compute ? t.compute_kernels : t.memory_kernels) += 1;
    const Estimate& e = kernel.schedule.estimate;
    t.bytes_read += times * e.bytes_read;
    t.bytes_written += times * e.bytes_written;
    t.flops += times * e.flops;
    t.predicted_us += static_cast<double>(times) * e.microseconds;
  });
  return t;
}

std::map<std::string, const PlannedKernel*> kernels_by_name(const Compilation& c) {
  std::map<std::string, const PlannedKernel*> out;
  for_each_kernel(c.plan, c.tensors, 1,
                  [&](const PlannedKernel& kernel, int64_t) { out.emplace(kernel.name, &kernel); });
  return out;
}

std::vector<std::string> origin_names(const TensorProgram& program, const Group& group) {
  std::set<int32_t> ids;
  for (const ExprId e : group.exprs) {
    const auto& origins = program.exprs[static_cast<size_t>(e)].origins;
    ids.insert(origins.begin(), origins.end());
  }
  std::vector<std::string> out;
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < program.origins.size())
      out.push_back(program.origins[static_cast<size_t>(id)].name);
  }
  return out;
}

}  // namespace weft
