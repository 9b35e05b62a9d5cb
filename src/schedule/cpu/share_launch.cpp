#include "schedule/cpu/share_launch.h"

#include <algorithm>
#include <limits>
#include <set>

#include "cost/latency.h"
#include "schedule/writer/launch_members.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/check/fits.h"

namespace weft {

namespace {

/// Scopes, whether it fits, and what it takes. Registers are those of one nest at a time, each of
/// which was chosen to fit.
Result<ScheduledKernel> finished(ScheduledKernel launch, Target target) {
  WEFT_ASSIGN_OR_RETURN(launch.scopes, derive_scopes(launch.program));
  launch.estimate.microseconds = cpu_latency(launch.program, launch.scopes, target).microseconds;
  target.vector_registers = std::numeric_limits<int>::max();
  if (Decision fit = fits(launch.program, launch.scopes, target); !fit)
    return unsupported(fit.reason());
  return launch;
}

/// Whether what one member stores and another reads lies in the order of its axes.
Status check_handed_on(std::span<const ScheduledKernel* const> members,
                       const std::vector<std::vector<TensorId>>& outputs) {
  std::set<TensorId> stored;
  for (size_t m = 0; m < members.size(); ++m) {
    const ScheduledKernel& member = *members[m];
    for (size_t i = 0; i < member.parameters.size(); ++i) {
      const bool own = std::ranges::count(outputs[m], member.parameters[i]) != 0;
      if (!own && !stored.contains(member.parameters[i])) continue;
      const auto symbol = static_cast<size_t>(member.program.parameters[i]);
      if (!member.program.symbols[symbol].layout.is_row_major())
        return unsupported(member.program.symbols[symbol].name + " is not row-major");
    }
    stored.insert(outputs[m].begin(), outputs[m].end());
  }
  return {};
}

}  // namespace

Decision can_share_launch(const ScheduledKernel& kernel) {
  const TileProgram& program = kernel.program;
  if (!program.cpu) return Decision::forbid("it is no CPU's");
  if (kernel.library || !kernel.orders.empty()) return Decision::forbid("a library runs it");
  if (!has_constant_shapes(program)) return Decision::forbid("its extents are open");
  for (const TileNode& node : program.body) {
    if (node.kind == TileNode::Kind::kPack) return Decision::forbid("it is packed");
    const bool recurs = node.kind == TileNode::Kind::kLoop && is_recurrence(*node.loop);
    if (recurs || grid_items(node) == 0) return Decision::forbid("its items are not counted");
  }
  const bool inside = std::ranges::any_of(kernel.scopes.barriers, [](const BarrierPoint& b) {
    return b.scope == Scope::kGrid && b.before.size() > 1;
  });
  return inside ? Decision::forbid("its threads meet inside a nest") : Decision::allow();
}

Result<ScheduledKernel> join_on_cpu(std::span<const ScheduledKernel* const> members,
                                    const std::vector<std::vector<TensorId>>& outputs,
                                    const std::string& name, const Target& target) {
  WEFT_RETURN_IF_ERROR(check_handed_on(members, outputs));
  return finished(members_in_turn(members, outputs, name, 0), target);
}

Result<ScheduledKernel> pack_on_cpu(std::span<const ScheduledKernel* const> members,
                                    const std::string& name, const Target& target) {
  std::vector<int64_t> items;
  for (const ScheduledKernel* member : members)
    items.push_back(grid_items(member->program.body.front()));
  return finished(members_side_by_side(members, items, name), target);
}

}  // namespace weft
