#include "tile/analysis/arena_use.h"

#include "tile/analysis/executions.h"
#include "tile/analysis/scope_derivation.h"

namespace weft {

ArenaUse arena_use(const TileProgram& program, const ScopeAnalysis& scopes) {
  Derivation d{program, structure_of(program), {}, {}, {}, scopes, {}};
  for (const auto& [statement, depth] : kept_statements(d.structure, scopes)) {
    for (const TileRef& target : statement->targets) d.kept.insert(target.symbol);
  }
  ArenaUse out;
  out.allocated = scopes.block_bytes;
  const std::vector<ArenaSlot> slots = arena_slots(d);
  out.least = live_at_once(slots);
  for (const ArenaSlot& slot : slots) {
    out.values += static_cast<int64_t>(slot.held.size());
    out.requested += slot.bytes * static_cast<int64_t>(slot.held.size());
  }
  return out;
}

}  // namespace weft
