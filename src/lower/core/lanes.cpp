#include "lower/core/lanes.h"

#include <algorithm>
#include <numeric>

#include "lower/core/index_emission.h"
#include "lower/core/thread_digits.h"

namespace weft::lowering {

Reg to_lanes(KernelWriter& w, Reg r, int32_t lanes) {
  return w.builder.type(r).lanes == lanes ? r : w.builder.broadcast(r, lanes);
}

Reg join_lanes(KernelWriter& w, std::vector<Reg> parts) {
  while (parts.size() > 1) {
    std::vector<Reg> wider;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      std::vector<int32_t> picked(static_cast<size_t>(w.builder.type(parts[i]).lanes) * 2);
      for (size_t l = 0; l < picked.size(); ++l) picked[l] = static_cast<int32_t>(l);
      wider.push_back(w.builder.shuffle(parts[i], parts[i + 1], picked));
    }
    parts = std::move(wider);
  }
  return parts[0];
}

Reg combine_guards(KernelWriter& w, Reg a, Reg b) {
  if (a == kNoReg) return b;
  if (b == kNoReg) return a;
  const int32_t lanes = std::max(w.builder.type(a).lanes, w.builder.type(b).lanes);
  return w.builder.apply(ScalarOp::kAnd, {to_lanes(w, a, lanes), to_lanes(w, b, lanes)},
                         DType::kBool);
}

Reg combine_values(KernelWriter& w, Combiner combiner, Reg a, Reg b) {
  const int32_t lanes = std::max(w.builder.type(a).lanes, w.builder.type(b).lanes);
  const DType type = w.builder.type(a).dtype;
  const std::optional<ScalarOp> op = combiner_op(combiner);
  WEFT_CHECK(op.has_value(), "a combiner of pairs has no scalar form");
  return w.builder.apply(*op, {to_lanes(w, a, lanes), to_lanes(w, b, lanes)}, type);
}

Reg lane_mask_of(KernelWriter& w, const Box& box, const Point& point, bool* skip) {
  return w.at_hand.mask = lane_mask_along(w, box, point, ~uint64_t{0}, skip);
}

Reg lane_mask_along(KernelWriter& w, const Box& box, const Point& point, uint64_t axes,
                    bool* skip) {
  *skip = false;
  Reg mask = kNoReg;
  for (size_t a = 0; a < box.axes.size(); ++a) {
    if ((axes >> a & 1) == 0) continue;
    const Box::Axis& axis = box.axes[a];
    const int64_t start = axis.start(point[a]);
    const auto& valid = w.bindings.valid[static_cast<size_t>(axis.var)];
    const TileVar& var = w.program.vars[static_cast<size_t>(axis.var)];
    const bool known = !valid || valid->reg == kNoReg;
    const int64_t count = valid && valid->count > 0 ? valid->count : var.extent;
    if (start >= count) {
      *skip = true;
      return kNoReg;
    }
    const bool inside = start + axis.thread_reach() + axis.lanes <= count;
    if (known && inside) continue;
    // What is left from this thread's first element on, within the axis.
    const bool beyond = start + axis.thread_reach() + axis.lanes > var.extent;
    Reg left = known ? w.builder.int_constant(count) : valid->reg;
    if (!known && beyond) {
      left =
          w.builder.apply(ScalarOp::kMin, {left, w.builder.int_constant(var.extent)}, DType::kI64);
    }
    Reg rest = w.builder.apply(ScalarOp::kSub, {left, w.builder.int_constant(start)}, DType::kI64);
    for (const auto& [digit, step] : axis.threads) {
      const Reg passed = w.builder.apply(
          ScalarOp::kMul, {emit_digit(w, digit), w.builder.int_constant(step)}, DType::kI64);
      rest = w.builder.apply(ScalarOp::kSub, {rest, passed}, DType::kI64);
    }
    for (const Box::Axis::LoopDigit& loop : axis.loops) {
      const Reg passed = w.builder.apply(
          ScalarOp::kMul, {kernel_var(w, loop.var), w.builder.int_constant(loop.step)},
          DType::kI64);
      rest = w.builder.apply(ScalarOp::kSub, {rest, passed}, DType::kI64);
    }
    const int64_t divisor = known    ? count
                            : beyond ? std::gcd(valid->divisor, var.extent)
                                     : valid->divisor;
    const bool whole = axis.lanes > 1 && w.is_gpu() && divisor % axis.lanes == 0;
    const Reg here =
        axis.lanes > 1 && !whole
            ? w.builder.lane_mask(rest, static_cast<int32_t>(axis.lanes))
            : w.builder.apply(ScalarOp::kGt, {rest, w.builder.int_constant(0)}, DType::kBool);
    mask = combine_guards(w, mask, here);
  }
  return mask;
}

}  // namespace weft::lowering
