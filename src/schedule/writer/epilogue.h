#pragma once

#include <functional>
#include <map>
#include <vector>

#include "schedule/writer/tile_builder.h"

namespace weft {

/// Where the members of a group lie that run on the finished tile of one of them, by position.
struct EpilogueBoxes {
  /// The coordinates that a member's value has in the tile.
  std::function<std::vector<IndexExpr>(int position)> coordinates;
  /// Where its value lies, and where it is stored from.
  std::function<Place(int position)> place, store_place;
  /// Writes the reduction of a member's `value` over the tile. Null where none but the first
  /// reduces; no result: what the tile has is a part of it, and the member is made elsewhere.
  std::function<ScalarRef(int position, const ScalarRef& value, TileBody* out)> reduced;
  /// Whether a member is written here; null: all are.
  std::function<bool(int position)> here = nullptr;
};

/// Writes all members of a group behind a loop that made `total`, the result of member `root`, in
/// its accumulator's type: each in the type of its tensor, and its store where it must reach
/// memory.
///     y_v[m,n] = f16(acc[m,n]);  z_v[m,n] = y_v[m,n] + b[n];  z[m,n] = z_v[m,n]
void emit_epilogue(TileBuilder* builder, int root, const ScalarRef& total,
                   const EpilogueBoxes& boxes, TileBody* out);
/// The same of several reductions: what the loop made, by member.
void emit_epilogue(TileBuilder* builder, const std::map<int, ScalarRef>& totals,
                   const EpilogueBoxes& boxes, TileBody* out);

}  // namespace weft
