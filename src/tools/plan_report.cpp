#include "tools/plan_report.h"

#include <set>

namespace weft {

namespace {

template <typename F>
void for_each_kernel(const FusionPlan& plan, F&& f) {
  for (const PlannedKernel& kernel : plan.kernels) f(kernel);
  for (const auto& regions : plan.regions) {
    for (const auto& region : regions) for_each_kernel(*region, f);
  }
}

}  // namespace

PlanTotals plan_totals(const Compilation& c) {
  PlanTotals t;
  t.ops = c.imported.node_count > 0 ? c.imported.node_count
                                    : static_cast<int64_t>(c.graph.nodes.size());
  for_each_kernel(c.plan, [&](const PlannedKernel& kernel) {
    (kernel.is_compute ? t.compute_kernels : t.memory_kernels) += 1;
    const Estimate& e = kernel.schedule.estimate;
    t.bytes_read += e.bytes_read;
    t.bytes_written += e.bytes_written;
    t.flops += e.flops;
    t.predicted_us += e.microseconds;
  });
  return t;
}

std::map<std::string, const PlannedKernel*> kernels_by_name(const Compilation& c) {
  std::map<std::string, const PlannedKernel*> out;
  for_each_kernel(c.plan, [&](const PlannedKernel& kernel) { out.emplace(kernel.name, &kernel); });
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
