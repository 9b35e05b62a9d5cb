#include "driver/explain/candidates_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "group/group_key.h"

namespace weft {

namespace {

/// A kernel and the program that it is of.
struct Found {
  const PlannedKernel* kernel = nullptr;
  const TensorProgram* program = nullptr;
  bool in_region = false;
};

/// Numbers are those of the steps of the outermost plan, from 1.
Found find_kernel(const FusionPlan& plan, const TensorProgram& program, const std::string& name,
                  bool in_region) {
  for (size_t s = 0; s < plan.order.size(); ++s) {
    const FusionPlan::Step& step = plan.order[s];
    if (step.opaque) continue;
    const PlannedKernel& kernel = plan.kernels[static_cast<size_t>(step.index)];
    if (kernel.name == name || (!in_region && std::to_string(s + 1) == name))
      return {&kernel, &program, in_region};
    for (const LoopMember& loop : kernel.loops) {
      const OpaqueExpr& scan = program.opaques[static_cast<size_t>(loop.opaque)];
      const Found inside = find_kernel(*loop.body, *scan.regions.back(), name, true);
      if (inside.kernel != nullptr) return inside;
    }
  }
  for (size_t o = 0; o < plan.regions.size(); ++o) {
    for (size_t r = 0; r < plan.regions[o].size(); ++r) {
      const Found inside =
          find_kernel(*plan.regions[o][r], *program.opaques[o].regions[r], name, true);
      if (inside.kernel != nullptr) return inside;
    }
  }
  return {};
}

std::string line_of(const Considered& c) {
  const std::string choice = c.choice ? print(*c.choice) : c.template_name;
  const std::optional<double> known = c.measured_us ? c.measured_us : c.predicted_us;
  const std::string us = known ? fmt::format("{:.2f} us", *known) : "-";
  return fmt::format("  {} {:>11}  {}{}\n", c.chosen ? '*' : ' ', us, choice,
                     c.why_not.empty() ? "" : "\n                  " + c.why_not);
}

}  // namespace

Result<std::string> candidates_text(const Explained& c, const std::string& kernel) {
  const Found found = find_kernel(c.plan, c.tensors, kernel, false);
  if (found.kernel == nullptr)
    return invalid_input("the plan has no kernel '" + kernel +
                         "'; `weft explain` lists their numbers and names");
  std::string out = found.kernel->name + "\n";
  const Target target = found.in_region ? of_region(c.target) : c.target;
  GroupKeys keys(*found.program);
  const std::vector<Group> alone{found.kernel->group};
  for (const Group& group : found.kernel->members.empty() ? alone : found.kernel->members) {
    if (group.exprs.empty()) continue;  // a loop, whose body has a kernel of its own
    WEFT_ASSIGN_OR_RETURN(
        const std::vector<Considered> considered,
        considered_candidates(*found.program, group, found.kernel->schedule.composition.kind,
                              target, c.measured.of(keys.of(group).hash)));
    if (!found.kernel->members.empty()) {
      const TensorExpr& last = found.program->exprs[static_cast<size_t>(group.exprs.back())];
      out += "  member " + found.program->tensors[static_cast<size_t>(last.output)].name + "\n";
    }
    for (const Considered& one : considered) out += line_of(one);
  }
  return out + "  built as " + print(found.kernel->schedule.composition) + "\n";
}

}  // namespace weft
