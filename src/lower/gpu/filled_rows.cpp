#include "lower/gpu/filled_rows.h"

#include <algorithm>
#include <utility>

#include "lower/core/expressions.h"
#include "lower/core/lanes.h"

namespace weft::lowering {

FillMask fill_mask(GpuWriter& w, const Box& box, const Point& point) {
  FillMask out;
  out.valid = lane_mask_of(w, box, point, &out.empty);
  std::vector<std::optional<Valid>> tails;
  for (const Box::Axis& axis : box.axes) {
    tails.push_back(std::exchange(w.bindings.valid[static_cast<size_t>(axis.var)], std::nullopt));
  }
  out.tile = lane_mask_of(w, box, point, &out.outside);
  for (size_t a = 0; a < tails.size(); ++a) {
    w.bindings.valid[static_cast<size_t>(box.axes[a].var)] = tails[a];
  }
  w.at_hand.mask = out.valid;  // under which the value is made
  return out;
}

namespace {

/// Not what lies in a register or in the block's memory, where anything stands beyond a tail.
bool is_loaded_by_mask(const GpuWriter& w, TileSymbolId symbol) {
  const int32_t buffer = w.memory.buffer_of[static_cast<size_t>(symbol)];
  return buffer >= 0 && (w.scopes.symbols[static_cast<size_t>(symbol)].staged ||
                         w.scopes.symbols[static_cast<size_t>(symbol)].scope != Scope::kBlock);
}

}  // namespace

Reg filled_value(GpuWriter& w, const TileStatement& s, const Point& point, const FillMask& mask) {
  const DType type = w.program.symbols[static_cast<size_t>(s.targets[0].symbol)].type;
  const auto zero = [&](int32_t lanes) {
    return w.builder.constant({type, lanes},
                              is_float(type) ? float_value(type, 0) : int_value(type, 0));
  };
  if (mask.empty) return zero(1);
  Reg value = evaluate(w, s.value, point, mask.valid);
  if (w.builder.type(value).dtype != type) {
    value = w.builder.apply(ScalarOp::kConvert, {value}, type);
  }
  // What is only loaded, under the mask, is zero already.
  const bool loaded = s.value->kind == Scalar::Kind::kRead && !s.value->fill &&
                      is_loaded_by_mask(w, static_cast<TileSymbolId>(s.value->symbol));
  if (mask.valid == kNoReg || loaded) return value;
  const int32_t lanes = std::max(w.builder.type(value).lanes, w.builder.type(mask.valid).lanes);
  return w.builder.apply(ScalarOp::kSelect,
                         {to_lanes(w, mask.valid, lanes), to_lanes(w, value, lanes), zero(lanes)},
                         type);
}

}  // namespace weft::lowering
