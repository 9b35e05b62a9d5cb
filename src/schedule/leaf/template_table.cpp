#include "schedule/leaf/template_table.h"

#include "schedule/cpu/templates.h"
#include "schedule/gpu/templates.h"

namespace weft {

std::span<const Template> templates_of(const Target& target) {
  return target.is_gpu() ? gpu_templates() : cpu_templates();
}

bool takes_groups_like(const Template& t, const GroupSpace& space) {
  return !space.frame() || t.builds_stages;
}

Decision can_be_leaf(const GroupSpace& space, const Target& target) {
  std::string refused, other;
  for (const Template& t : templates_of(target)) {
    if (!takes_groups_like(t, space)) continue;
    const Fit fit = t.applies(space, target);
    if (fit.kind == Fit::Kind::kBuilds) return Decision::allow();
    std::string& reason = fit.kind == Fit::Kind::kRefused ? refused : other;
    if (reason.empty() || fit.kind == Fit::Kind::kOtherKind) reason = fit.reason;
  }
  return Decision::forbid(refused.empty() ? other : refused);
}

}  // namespace weft
