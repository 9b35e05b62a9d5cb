#include <optional>

#include "group/join_moments.h"
#include "schedule/gpu/row_layout.h"
#include "schedule/gpu/templates.h"
#include "schedule/gpu/thread_stitch.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/check/fits.h"

namespace weft {

Result<ScheduledKernel> build_thread_stitch(const TensorProgram& program, const Group& group,
                                            const GroupAxes& axes, const Target& target,
                                            const std::string& name) {
  // The last layout is taken whatever it asks for; of tiles the first without conflicts of banks,
  // else that with the fewest.
  const JoinedGroup joined = join_moments(program, group, axes), apart{axes, {}, {}};
  const std::vector<RowLayout> layouts = row_layouts(program, group, axes, joined, target);
  std::optional<ScheduledKernel> best;
  int64_t fewest = 0;
  for (const RowLayout& layout : layouts) {
    if (best.has_value() && layout.cross < 0) break;
    ScheduledKernel kernel =
        stitch_threads(program, group, layout.joins ? joined : apart, layout, name);
    if (&layout == &layouts.back()) return kernel;
    WEFT_ASSIGN_OR_RETURN(const ScopeAnalysis scopes, derive_scopes(kernel.program));
    if (!fits(kernel.program, scopes, target)) continue;
    if (layout.cross < 0 || scopes.bank_conflicts == 0) return kernel;
    if (best.has_value() && scopes.bank_conflicts >= fewest) continue;
    fewest = scopes.bank_conflicts;
    best = std::move(kernel);
  }
  WEFT_CHECK(best.has_value(), "no layout for " + name);
  return std::move(*best);
}

}  // namespace weft
