#pragma once

#include <cstdint>
#include <vector>

#include "target/target.h"

namespace weft {

/// How a tile's products are added up.
struct Multiplier {
  int64_t registers = 16;  ///< that a tile may take
  /// Sums that the tile holds of each of its elements: several products in one kernel.
  int64_t products = 1;
  /// Whether another sum of each stands beside the accumulators.
  bool apart = false;
  /// Pairs of words: their sum stands in a register before it is added to the accumulator, and a
  /// panel's bytes are widened as they are loaded.
  bool of_pairs = false;

  bool fits(int64_t rows, int64_t vectors) const;
};

/// What a register tile reads besides its panel, `depth` steps long: rows that lie `row_stride`
/// bytes apart, `row_bytes` in all.
struct RowOperand {
  int64_t depth = 1;  ///< steps of the reduction
  int64_t row_stride = 0;
  int64_t row_bytes = 0;
  bool per_vector = false;    ///< each vector of the tile reads elements of its own
  bool costly = false;        ///< functions of many instructions take the time, not what is read
  bool panels_again = false;  ///< other axes than that of the rows read a panel again
};

/// The result that tiles cut. Of an open number of rows or columns the rest does not count: the
/// tile stays the same for others.
struct TiledResult {
  int64_t rows = 1, columns = 1;
  bool open_rows = false, open_columns = false;
};

/// Rows and vectors of a register tile, and the time of a step along the reduction in FMA slots for
/// the whole output. A slot is that of the target's widest vector.
struct RegisterTile {
  int64_t rows = 1, vectors = 1, lanes = 1;
  double cost = 0;
};

/// Of a tile of the widest vectors; twice as many where a row's values are decoded beside it, in
/// panels of several products, or of vectors half as wide.
inline constexpr int64_t kMostVectors = 4;

/// Tiles of up to `max_vectors` vectors of `lanes` lanes, one vector FMA a slot beside loads. Wide
/// tiles read the row operand less often, tall ones the panel; rows that fall into the same cache
/// sets throw each other out. Where functions take the time, the widest read what lies side by
/// side. The best first; the first is there in any case.
std::vector<RegisterTile> rank_register_tiles(const TiledResult& result, int64_t lanes,
                                              int64_t max_vectors, const RowOperand& operand,
                                              const Multiplier& multiplier, const Target& target);

}  // namespace weft
