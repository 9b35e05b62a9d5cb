#include "schedule/writer/statements.h"

#include <utility>

#include "schedule/writer/tile_builder.h"

namespace weft {

TileStatement assign(TileSymbolId symbol, std::vector<IndexExpr> indices, ScalarRef value,
                     Place place) {
  TileStatement st;
  st.targets.push_back({symbol, std::move(indices), false});
  st.value = std::move(value);
  st.place = std::move(place);
  return st;
}

TileStatement assign_next(TileSymbolId carry, std::vector<IndexExpr> box, ScalarRef value,
                          Place place) {
  TileStatement st = assign(carry, std::move(box), std::move(value), std::move(place));
  st.targets[0].next = true;
  return st;
}

TileStatement assign_reduced(TileSymbolId symbol, std::vector<IndexExpr> indices, Combiner combiner,
                             std::vector<TileVarId> over, ScalarRef value, Place place) {
  TileStatement st = assign(symbol, std::move(indices), std::move(value), std::move(place));
  st.combiner = tile_combiner(combiner);
  st.reduce_axes = std::move(over);
  return st;
}

TileCarry carried(TileSymbolId symbol, std::vector<IndexExpr> box, ScalarRef initial, Place place) {
  TileCarry carry;
  carry.target = {symbol, std::move(box), false};
  carry.type = initial->type;
  carry.initial = std::move(initial);
  carry.place = std::move(place);
  return carry;
}

}  // namespace weft
