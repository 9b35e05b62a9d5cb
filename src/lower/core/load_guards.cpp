#include "lower/core/load_guards.h"

#include "lower/core/lanes.h"

namespace weft::lowering {

Reg own_guard(KernelWriter& w, const Scalar& s, const Point& point, Reg guard, uint64_t axes) {
  const bool loads = s.kind == Scalar::Kind::kRead && !s.fill && s.operands.empty();
  if (!loads || guard == kNoReg || guard != w.at_hand.mask) return guard;
  const bool input =
      w.program.symbols[static_cast<size_t>(s.symbol)].kind == TileSymbol::Kind::kInput;
  bool skip = false;
  const Reg own = lane_mask_along(w, w.at_hand.box, point, axes, &skip);
  // A mask of lanes cannot guard a load of one element: that of its own axes can.
  const bool of_lanes =
      w.builder.type(guard).lanes > 1 && (own == kNoReg || w.builder.type(own).lanes == 1);
  return input || of_lanes ? own : guard;
}

Reg made_guard(KernelWriter& w, int32_t buffer, const Scalar& read, const Point& point) {
  const KernelBuffer& from = w.kernel.buffers[static_cast<size_t>(buffer)];
  if (!w.is_gpu() || from.kind == KernelBuffer::Kind::kInput) return kNoReg;
  const auto axes = w.at_hand.box_masks.find(&read);
  if (axes == w.at_hand.box_masks.end()) return kNoReg;
  bool skip = false;
  const Reg own = lane_mask_along(w, w.at_hand.box, point, axes->second, &skip);
  return own != kNoReg && w.builder.type(own).lanes == 1 ? own : kNoReg;
}

}  // namespace weft::lowering
