#pragma once

#include "tile/analysis/relate_reads.h"
#include "tile/places.h"
#include "tile/scope_analysis.h"

namespace weft {

/// What the steps of derive_scopes share.
struct Derivation {
  const TileProgram& program;
  TileStructure structure;
  PlaceTable places;
  std::vector<std::optional<ReadRelation>> relations;  ///< by read; none for parameters
  std::vector<Scope>
      read_scopes;  ///< by read: what it alone asks for; kRegister: its thread made the element
  ScopeAnalysis out;
  /// Values that a block keeps over its iterations of a grid loop.
  std::set<TileSymbolId> kept;
};

/// Joins rules 1a to 1d over the reads of every value and carry.
void derive_symbol_scopes(Derivation& d);

/// Extents, bases and sizes of what lies in memory. Error: an extent that no bound size gives.
Status derive_buffers(Derivation& d);

/// Orders of the block's buffers that matrix units read rows from.
void derive_swizzles(Derivation& d);

/// Pads rows of the block's other buffers of two and more axes, where the lanes of a warp would
/// meet in one bank without: as few elements as leave the fewest such meetings. Rows that do not
/// begin at whole vectors are accessed element by element.
void pad_rows(Derivation& d);

/// Sites first to last during which a symbol is alive: a loop around some of its accesses but not
/// all counts whole.
struct SiteRange {
  int32_t first = 0, last = -1;
};
SiteRange live_range(const Derivation& d, TileSymbolId symbol);

/// By symbol: the value in whose bytes it is made though that is alive, or -1 (FusionStitching 2018
/// §5.1.3: Divide.1 takes the space of Exponential.1). On a CPU, of buffers that lie alike, where
/// nothing reads an element behind the one that takes its place. On a GPU other threads may read an
/// element before it is made anew; there statements read into registers first, so that lifetimes
/// end.
std::vector<TileSymbolId> in_place_sources(const Derivation& d);

/// Values that have the same bytes one after another, in their order.
struct ArenaSlot {
  std::vector<TileSymbolId> held;
  SiteRange live;         ///< from the first of them to the last
  int64_t bytes = 0;      ///< a multiple of the arena's alignment
  int64_t alignment = 1;  ///< of its offset
};
/// Of what lies in the block's arena. Requires the buffers' bytes.
std::vector<ArenaSlot> arena_slots(const Derivation& d);

/// The most bytes of slots that are alive at one site: no placing takes less.
int64_t live_at_once(const std::vector<ArenaSlot>& slots);

/// Offsets in the block's arena, shared by liveness, and the totals.
Status place_buffers(Derivation& d);

/// Barriers of grid scope. What an iteration keeps across one goes to memory on a CPU; on a GPU it
/// has one slot per iteration of the block. Error: a barrier would stand inside a condition.
Status derive_grid_barriers(Derivation& d);

/// Barriers of cluster and block scope, on a GPU: needs the arena's offsets.
Status derive_block_barriers(Derivation& d);

/// Buffers of a carry in memory: 2 where an element is read by anything but its own update, or
/// after it.
int64_t carry_copies(const Derivation& d, TileSymbolId carry);

/// Whether a statement fills block memory from inputs alone, in a loop that does so ahead of its
/// iterations: its buffers are in use all the time.
bool is_staged_load(const Derivation& d, const Site& site);

/// Loops around every access of a symbol, those of its carry's own loop aside.
std::vector<const TileLoop*> lifetime_loops(const Derivation& d, TileSymbolId symbol);

/// Extents and bases over the loops of the lifetime, or over none of them.
Status fill_buffer(const Derivation& d, TileSymbolId symbol,
                   const std::vector<const TileLoop*>& around, SymbolScope* scope);

}  // namespace weft
