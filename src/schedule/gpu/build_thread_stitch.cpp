#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "group/join_moments.h"
#include "schedule/gpu/row_layout.h"
#include "schedule/gpu/templates.h"
#include "schedule/gpu/thread_stitch.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/check/fits.h"

namespace weft {

namespace {

/// Of the two places in which warps leave their parts of a reduction, in turns.
int64_t exchange_bytes(const TileProgram& program, const ScopeAnalysis& scopes) {
  int64_t most = 0;
  size_t number = 0;
  for_each_statement(program.body, [&](const TileStatement& st) {
    const Place& place = scopes.statement_places[number++];
    int64_t results = 1, lanes = 1;
    bool spans_warps = false;
    for (const Place::Axis& axis : place.axes) {
      const bool reduced = std::ranges::find(st.reduce_axes, axis.var) != st.reduce_axes.end();
      for (const Place::Digit& d : axis.digits) {
        if (reduced) {
          spans_warps |= d.level == PlaceLevel::kWarp;
        } else if (d.level == PlaceLevel::kLane) {
          lanes = 32;
        } else if (d.level != PlaceLevel::kWarp) {
          results *= d.extent;
        }
      }
    }
    if (!spans_warps) return;
    most = std::max(most, results * lanes * program.warps * byte_size(st.value->type));
  });
  return 2 * most;
}

/// Whether the block fits, and as many of them on an SM as a barrier of the grid asks for. Some
/// registers go to addresses.
Decision fits_device(const TileProgram& program, const ScopeAnalysis& scopes,
                     const Target& target) {
  constexpr int64_t kAddressRegisters = 16;
  Decision alone = fits(program, scopes, target);
  if (!alone) return alone;
  const int64_t shared = scopes.block_bytes + exchange_bytes(program, scopes);
  if (shared > target.shared_bytes_per_block) {
    return Decision::forbid(fmt::format("{} bytes of shared memory, {} has {}", shared, target.name,
                                        target.shared_bytes_per_block));
  }
  const int64_t wanted = scopes.registers + kAddressRegisters;
  if (wanted > target.registers_per_thread) {
    return Decision::forbid(fmt::format("{} registers of a thread, {} has {}", wanted, target.name,
                                        target.registers_per_thread));
  }
  const int64_t resident = resident_blocks_per_sm(target, program.warps * 32, wanted, shared);
  if (resident >= std::max<int64_t>(program.per_sm, 1)) return alone;
  return Decision::forbid(
      fmt::format("{} blocks on an SM, where {} have to be", resident, program.per_sm));
}

}  // namespace

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
    if (!fits_device(kernel.program, scopes, target)) continue;
    if (layout.cross < 0 || scopes.bank_conflicts == 0) return kernel;
    if (best.has_value() && scopes.bank_conflicts >= fewest) continue;
    fewest = scopes.bank_conflicts;
    best = std::move(kernel);
  }
  WEFT_CHECK(best.has_value(), "no layout for " + name);
  return std::move(*best);
}

}  // namespace weft
