#include "lower/gpu/load_guards.h"

#include "lower/core/lanes.h"

namespace weft::lowering {

Reg own_guard(GpuWriter& w, const Scalar& s, const Point& point, Reg guard, uint64_t axes) {
  const bool loads =
      s.kind == Scalar::Kind::kRead && !s.fill && s.operands.empty() &&
      w.program.symbols[static_cast<size_t>(s.symbol)].kind == TileSymbol::Kind::kInput;
  if (loads && guard != kNoReg && guard == w.at_hand.mask) {
    bool skip = false;
    guard = lane_mask_along(w, w.at_hand.box, point, axes, &skip);
  }
  // What is staged lies in memory as a whole, with zeros beyond tails: all points share its loads.
  const bool staged = s.kind == Scalar::Kind::kRead && w.at_hand.fills_tile &&
                      w.scopes.symbols[static_cast<size_t>(s.symbol)].staged;
  return staged ? kNoReg : guard;
}

}  // namespace weft::lowering
