#include <algorithm>
#include <array>
#include <bit>

#include "lower/lowering.h"

namespace weft::lowering {

Reg Lowering::thread_number(PlaceLevel level) {
  return builder_.position(level == PlaceLevel::kLane ? KernelPosition::kLane
                                                      : KernelPosition::kWarp);
}

Reg Lowering::emit_digit(const ThreadDigit& digit) {
  Reg r = thread_number(digit.level);
  const int64_t size = level_size(digit.level);
  if (digit.stride > 1) {
    r = builder_.apply(ScalarOp::kDiv, {r, builder_.int_constant(digit.stride)}, DType::kI64);
  }
  if (digit.stride * digit.extent < size) {
    r = builder_.apply(ScalarOp::kRem, {r, builder_.int_constant(digit.extent)}, DType::kI64);
  }
  return r;
}

/// The kernel variable that stands for a digit in index expressions.
int Lowering::thread_var(const ThreadDigit& digit) {
  const auto it = thread_vars_.find(digit);
  if (it != thread_vars_.end()) return it->second;
  kernel_vars_.push_back({kNoReg, {0, digit.extent - 1}, digit, -1, {}});
  return thread_vars_[digit] = kKernelVarBase + static_cast<int>(kernel_vars_.size()) - 1;
}

/// Of the threads that differ in these digits only, the first.
Reg Lowering::is_first_copy(const std::vector<ThreadDigit>& copies) {
  Reg first = kNoReg;
  for (const ThreadDigit& digit : copies) {
    // The topmost digit is zero below its stride.
    const bool top = digit.stride * digit.extent >= level_size(digit.level);
    const Reg here =
        top ? builder_.apply(ScalarOp::kLt,
                             {thread_number(digit.level), builder_.int_constant(digit.stride)},
                             DType::kBool)
            : builder_.apply(ScalarOp::kEq, {emit_digit(digit), builder_.int_constant(0)},
                             DType::kBool);
    first = combine_guards(first, here);
  }
  return first;
}

/// Rule 2: lanes by shuffles. Every lane gets the result.
Reg Lowering::reduce_over_lanes(const Box& box, const TileStatement& statement, Combiner combiner,
                                Reg value) {
  for (const Box::Axis& axis : box.axes) {
    const auto& reduced = statement.reduce_axes;
    if (std::find(reduced.begin(), reduced.end(), axis.var) == reduced.end()) continue;
    for (const auto& [digit, step] : axis.threads) {
      if (digit.level != PlaceLevel::kLane) continue;
      WEFT_CHECK(std::has_single_bit(static_cast<uint64_t>(digit.extent)) &&
                     std::has_single_bit(static_cast<uint64_t>(digit.stride)),
                 "a reduction over lanes that are no power of two in " + program_.name);
      for (int64_t apart = digit.extent / 2; apart >= 1; apart /= 2) {
        value = each_lane(
            value,
            [&](Reg scalar) {
              return builder_.warp_xor(scalar, static_cast<int32_t>(apart * digit.stride));
            },
            combiner);
      }
    }
  }
  return value;
}

/// Rule 2: warps through shared memory, all results behind one barrier. Every thread gets them.
void Lowering::reduce_over_warps(const Box& box, const ReductionKey& key, Combiner combiner,
                                 std::vector<Reg>* values) {
  const auto made = std::find_if(values->begin(), values->end(), [](Reg r) { return r != kNoReg; });
  if (made == values->end() || !spans_warps(box, *key.first)) return;
  const KernelType type = builder_.type(*made);
  const Exchange exchange =
      make_exchange(box, key, type.dtype, static_cast<int64_t>(values->size()) * type.lanes);
  const auto slot = [&](size_t i, int32_t lane) {
    return static_cast<int64_t>(i) * type.lanes + lane;
  };
  const auto lane_of = [&](Reg r, int32_t lane) {
    return builder_.type(r).lanes == 1 ? r : builder_.extract(r, lane);
  };
  for (size_t i = 0; i < values->size(); ++i) {
    if ((*values)[i] == kNoReg) continue;
    for (int32_t l = 0; l < type.lanes; ++l) {
      leave_part(exchange, lane_of((*values)[i], l), slot(i, l));
    }
  }
  for (size_t i = 0; i < values->size(); ++i) {
    if ((*values)[i] == kNoReg) continue;
    std::vector<Reg> parts;
    for (int32_t l = 0; l < type.lanes; ++l) {
      parts.push_back(combine_parts(exchange, combiner, slot(i, l)));
    }
    (*values)[i] = join_lanes(std::move(parts));
  }
}

bool Lowering::spans_warps(const Box& box, const TileStatement& statement) {
  for (const Box::Axis& axis : box.axes) {
    const auto& reduced = statement.reduce_axes;
    if (std::find(reduced.begin(), reduced.end(), axis.var) == reduced.end()) continue;
    for (const auto& [digit, step] : axis.threads) {
      if (digit.level == PlaceLevel::kWarp) return true;
    }
  }
  return false;
}

/// The value combined with what `from` gives, element by element of a vector.
Reg Lowering::each_lane(Reg value, const std::function<Reg(Reg)>& from, Combiner combiner) {
  const int32_t lanes = builder_.type(value).lanes;
  if (lanes == 1) return combine_values(combiner, value, from(value));
  std::vector<Reg> others;
  for (int32_t l = 0; l < lanes; ++l) others.push_back(from(builder_.extract(value, l)));
  return combine_values(combiner, value, join_lanes(others));
}

/// Scalars as one vector.
Reg Lowering::join_lanes(std::vector<Reg> parts) {
  while (parts.size() > 1) {
    std::vector<Reg> wider;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      std::vector<int32_t> picked(static_cast<size_t>(builder_.type(parts[i]).lanes) * 2);
      for (size_t l = 0; l < picked.size(); ++l) picked[l] = static_cast<int32_t>(l);
      wider.push_back(builder_.shuffle(parts[i], parts[i + 1], picked));
    }
    parts = std::move(wider);
  }
  return parts[0];
}

/// Shared memory for the partial results of one reduction's warps: a buffer a statement, in two
/// places behind the arena of the tile program in turns. What is read from one is behind the
/// barrier of the other when it is written again.
Lowering::Exchange Lowering::make_exchange(const Box& box, const ReductionKey& key, DType type,
                                           int64_t result_points) {
  Exchange out;
  const TileStatement& statement = *key.first;
  out.warps = program_.warps;
  for (const ThreadDigit& d : box.copies) {
    if (d.level == PlaceLevel::kWarp && d.stride * d.extent > program_.warps) out.warps = d.stride;
  }
  for (const Box::Axis& axis : box.axes) {
    const bool reduced = std::find(statement.reduce_axes.begin(), statement.reduce_axes.end(),
                                   axis.var) != statement.reduce_axes.end();
    for (const auto& [digit, step] : axis.threads) {
      if (reduced && digit.level == PlaceLevel::kWarp) out.reduced.push_back(digit);
      if (!reduced && digit.level == PlaceLevel::kLane) out.lanes = 32;
    }
  }
  const auto known = exchange_buffers_.find(key);
  if (known != exchange_buffers_.end()) {
    out.buffer = known->second;
    return out;
  }
  KernelBuffer buffer;
  buffer.name =
      program_.symbols[static_cast<size_t>(statement.targets[0].symbol)].name + "_partial";
  buffer.dtype = type;
  buffer.kind = KernelBuffer::Kind::kShared;
  buffer.elements = result_points * program_.warps * out.lanes;
  buffer.alignment = 16;
  out.buffer = static_cast<int32_t>(kernel_.buffers.size());
  kernel_.buffers.push_back(std::move(buffer));
  exchange_buffers_[key] = out.buffer;
  return out;
}

/// The two places hold the largest of their buffers.
void Lowering::place_exchanges() {
  std::array<int64_t, 2> bytes{};
  std::vector<int32_t> buffers;
  for (const auto& [key, buffer] : exchange_buffers_) buffers.push_back(buffer);
  std::ranges::sort(buffers);  // in the order of their statements
  const auto place_of = [&](size_t i) -> KernelBuffer& {
    return kernel_.buffers[static_cast<size_t>(buffers[i])];
  };
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t own = (place_of(i).elements * byte_size(place_of(i).dtype) + 15) / 16 * 16;
    bytes[i % 2] = std::max(bytes[i % 2], own);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    place_of(i).scratch_offset = kernel_.shared_bytes + (i % 2 == 0 ? 0 : bytes[0]);
  }
  kernel_.shared_bytes += bytes[0] + bytes[1];
}

/// Each warp leaves its part in shared memory.
void Lowering::leave_part(const Exchange& exchange, Reg value, int64_t result_point) {
  const auto num = [&](int64_t v) { return builder_.int_constant(v); };
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return builder_.apply(o, {a, b}, DType::kI64); };
  const Reg warp = thread_number(PlaceLevel::kWarp), lane = thread_number(PlaceLevel::kLane);
  const int64_t base = result_point * program_.warps * exchange.lanes;
  Reg own = op(ScalarOp::kMul, warp, num(exchange.lanes));
  if (exchange.lanes > 1) own = op(ScalarOp::kAdd, own, lane);
  // Lanes that hold the same part: the first stores it.
  std::vector<ThreadDigit> copies;
  if (exchange.lanes == 1) copies.push_back({PlaceLevel::kLane, 1, 32});
  builder_.store(exchange.buffer, op(ScalarOp::kAdd, own, num(base)), value,
                 copies.empty() ? kNoReg : is_first_copy(copies));
}

/// Each thread combines the parts of the warps that differ in the reduced digits only, in their
/// order.
Reg Lowering::combine_parts(const Exchange& exchange, Combiner combiner, int64_t result_point) {
  const auto num = [&](int64_t v) { return builder_.int_constant(v); };
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return builder_.apply(o, {a, b}, DType::kI64); };
  const Reg warp = thread_number(PlaceLevel::kWarp), lane = thread_number(PlaceLevel::kLane);
  const int64_t base = result_point * program_.warps * exchange.lanes;
  // The first of the warps that are combined; for warps left over, of those whose copies they hold.
  Reg first =
      exchange.warps < program_.warps ? op(ScalarOp::kRem, warp, num(exchange.warps)) : warp;
  for (const ThreadDigit& d : exchange.reduced) {
    first = op(ScalarOp::kSub, first, op(ScalarOp::kMul, emit_digit(d), num(d.stride)));
  }
  Reg from = op(ScalarOp::kMul, first, num(exchange.lanes));
  if (exchange.lanes > 1) from = op(ScalarOp::kAdd, from, lane);
  from = op(ScalarOp::kAdd, from, num(base));
  const ThreadDigit& only = exchange.reduced[0];
  const bool adjacent = exchange.reduced.size() == 1 && only.stride == 1 && exchange.lanes == 1 &&
                        std::has_single_bit(static_cast<uint64_t>(only.extent));
  if (adjacent) {
    return builder_.reduce_lanes(
        combiner, builder_.load(exchange.buffer, from, static_cast<int32_t>(only.extent)));
  }
  std::vector<int64_t> offsets{0};
  for (const ThreadDigit& d : exchange.reduced) {
    std::vector<int64_t> next;
    for (const int64_t o : offsets) {
      for (int64_t k = 0; k < d.extent; ++k) next.push_back(o + k * d.stride * exchange.lanes);
    }
    offsets = std::move(next);
  }
  Reg sum = kNoReg;
  for (const int64_t o : offsets) {
    const Reg part = builder_.load(exchange.buffer, op(ScalarOp::kAdd, from, num(o)), 1);
    sum = sum == kNoReg ? part : combine_values(combiner, sum, part);
  }
  return sum;
}

}  // namespace weft::lowering
