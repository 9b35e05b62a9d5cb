#include "tools/plan_report.h"

#include <set>

namespace weft {

std::map<std::string, const PlannedKernel*> kernels_by_name(const Compilation& c) {
  std::map<std::string, const PlannedKernel*> out;
  for_each_kernel(c.plan, c.tensors,
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
