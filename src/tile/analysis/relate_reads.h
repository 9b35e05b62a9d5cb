#pragma once

#include <string>
#include <vector>

#include "tile/tile_structure.h"

namespace weft {

/// Where, seen from a reader, the elements are made that it reads.
enum class Reach : uint8_t {
  kHere,      ///< in this iteration of all loops around both, or of nests that the same blocks run
  kCluster,   ///< in another iteration of a cluster loop alone, on a GPU
  kGrid,      ///< in another nest, or another iteration of a grid or cluster loop
  kSeq,       ///< in another iteration of a seq loop, and the value is not carried
  kUnproven,  ///< not decided by bounds: runtime indices, guards that bounds do not see
  kNowhere,   ///< outside what is made
};

/// One read of a value or carry against the statement (or carry) that makes it.
struct ReadRelation {
  Reach reach = Reach::kHere;
  /// The producer's side: site, its target's indices and the loops in which it runs. A carry is
  /// made inside its loop for readers inside, outside of it for those behind it.
  int32_t producer = -1;
  const std::vector<IndexExpr>* made = nullptr;
  std::vector<const TileLoop*> producer_loops;
  std::vector<const TileLoop*> common;
  bool carried = false;    ///< the value of the iteration before
  bool from_nest = false;  ///< kHere: of an earlier nest, which the same block ran
  std::vector<const TileLoop*>
      kept;  ///< loops around the producer only, whose iterations the coordinates tell apart
  std::vector<const TileLoop*> lost;  ///< … do not tell apart
  std::vector<const TileLoop*>
      picked;            ///< loops around the reader only, whose index selects elements
  bool dynamic = false;  ///< a runtime index selects elements
  std::string
      why;  ///< of kGrid, kSeq, kNowhere: "coordinate 1, in [-1, 255], reaches another grid s"
};

/// Requires: the read names a value or a carry that has a definition.
ReadRelation relate_read(const TileStructure& structure, const ReadSite& read);

/// "seq j", "grid s"; the dimensions of one header with commas.
std::string loop_name(const TileProgram& program, const TileLoop& loop);

/// Number of the top-level piece in which a site stands, in a recurrence with that of the piece of
/// its body; values cross from one to another through memory, unless the same block runs both.
std::vector<int32_t> nest_of(const Site& site);

}  // namespace weft
