#pragma once

#include <optional>

#include "tile/tile_program.h"

namespace weft {

/// Rows of 16 bytes of a buffer exchanged so that eight rows above each other lie in different
/// banks: element p of the row-major order lies at p ^ ((p >> shift) & ((2^bits - 1) << base)).
///
/// With panels the order is another one before: so many columns of all rows lie below each other,
/// then the next (what warp groups read; GroupMultiplyPayload).
struct Swizzle {
  int bits = 0, base = 0, shift = 0;
  int64_t panel_columns = 0;  ///< 0: rows as a whole
  friend bool operator==(const Swizzle&, const Swizzle&) = default;
};

/// What rules 1 to 4 derive for one value or carry.
struct SymbolScope {
  Scope scope = Scope::kRegister;
  std::string reason;  ///< which rule and which read: "read by y: kept over seq j (1b)"; empty for
                       ///< registers
  bool recomputed = false;
  /// For scratch/block and grid scope: the buffer. Element of coordinates c is at sum((c[a] -
  /// base[a]) * stride[a]), row-major over `extents` in the order of the coordinates; `base` is in
  /// the variables of the loops around the buffer's lifetime.
  std::vector<int64_t> extents;
  std::vector<IndexExpr> base;
  /// A dimension of the grid.
  struct Part {
    TileVarId origin = -1;
    IndexExpr begin;
    int64_t step = 1, trips = 1;
  };
  /// CPU: those that the coordinates do not tell apart; each iteration has a buffer of its own, the
  /// last dimension's side by side.
  std::vector<Part> parts;
  int64_t copies = 1;   ///< 2: double-buffered carry; a staged load has one for each stage
  bool staged = false;  ///< made ahead of its iteration, in a loop of several stages
  /// Block scope, read by matrix units alone, which take whole rows of 16 bytes from it.
  std::optional<Swizzle> swizzle;
  /// Elements behind each row of the innermost axis that nothing reads: rows above each other then
  /// begin in other banks of a GPU's shared memory.
  int64_t pad = 0;
  int64_t bytes = 0;   ///< of all copies
  int64_t offset = 0;  ///< in the block's arena (scratch, shared memory) after sharing by liveness
  Place place;         ///< resolved place of the value's statement or carry
};

struct BarrierPoint {
  Scope scope = Scope::kBlock;
  /// Path of child indices from the program's body to the node before which the barrier stands; a
  /// pack adds the number of the member. The last index may be one past the end of a body.
  std::vector<int32_t> before;
  IndexExpr blocks = 1;  ///< cluster and grid scope: how many blocks take part
};

struct ScopeAnalysis {
  std::vector<SymbolScope> symbols;  ///< by TileSymbolId; parameters have default entries
  std::vector<BarrierPoint> barriers;
  /// Resolved place of every statement, in the order of the text; SymbolScope::place where the
  /// target is a value.
  std::vector<Place> statement_places;
  int64_t block_bytes = 0;     ///< shared memory or scratch per block
  int64_t cluster_blocks = 1;  ///< iterations of the cluster loops, which a cluster runs together
  /// Passes over the banks of shared memory beyond the fewest, of one execution of each access to a
  /// value of block scope that no swizzle serves.
  int64_t bank_conflicts = 0;
  int64_t workspace_bytes = 0;  ///< global memory for grid-scope values
  int64_t registers =
      0;  ///< per thread (GPU) or vector registers (CPU) live at the peak, estimated
};

}  // namespace weft
