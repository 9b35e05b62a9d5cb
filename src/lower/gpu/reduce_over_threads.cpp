#include "lower/gpu/reduce_over_threads.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "lower/core/lanes.h"
#include "lower/core/thread_digits.h"

namespace weft::lowering {

namespace {

struct Exchange {
  int32_t buffer = -1;
  int64_t lanes = 1;  ///< 32 where the lanes of a warp hold different elements
  std::vector<ThreadDigit> reduced;
  int64_t warps = 1;  ///< that hold parts; others hold copies
};

bool spans_warps(const Box& box, const TileStatement& statement) {
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
Reg each_lane(GpuWriter& w, Reg value, const std::function<Reg(Reg)>& from, Combiner combiner) {
  const int32_t lanes = w.builder.type(value).lanes;
  if (lanes == 1) return combine_values(w, combiner, value, from(value));
  std::vector<Reg> others;
  for (int32_t l = 0; l < lanes; ++l) others.push_back(from(w.builder.extract(value, l)));
  return combine_values(w, combiner, value, join_lanes(w, others));
}

/// Shared memory for the partial results of one reduction's warps: a buffer a statement, in two
/// places behind the arena of the tile program in turns. What is read from one is behind the
/// barrier of the other when it is written again.
Exchange make_exchange(GpuWriter& w, const Box& box, const ReductionKey& key, DType type,
                       int64_t result_points) {
  Exchange out;
  const TileStatement& statement = *key.first;
  out.warps = w.program.warps;
  for (const ThreadDigit& d : box.copies) {
    if (d.level == PlaceLevel::kWarp && d.stride * d.extent > w.program.warps) out.warps = d.stride;
  }
  for (const Box::Axis& axis : box.axes) {
    const bool reduced = std::find(statement.reduce_axes.begin(), statement.reduce_axes.end(),
                                   axis.var) != statement.reduce_axes.end();
    for (const auto& [digit, step] : axis.threads) {
      if (reduced && digit.level == PlaceLevel::kWarp) out.reduced.push_back(digit);
      if (!reduced && digit.level == PlaceLevel::kLane) out.lanes = 32;
    }
  }
  const int64_t elements = result_points * w.program.warps * out.lanes;
  const auto known = w.exchange_buffers.find(key);
  if (known != w.exchange_buffers.end()) {
    // Of results that are equal a whole iteration exchanges one, its tail each.
    out.buffer = known->second;
    int64_t& held = w.kernel.buffers[static_cast<size_t>(out.buffer)].elements;
    held = std::max(held, elements);
    return out;
  }
  KernelBuffer buffer;
  buffer.name =
      w.program.symbols[static_cast<size_t>(statement.targets[0].symbol)].name + "_partial";
  buffer.dtype = type;
  buffer.kind = KernelBuffer::Kind::kShared;
  buffer.elements = elements;
  buffer.alignment = 16;
  out.buffer = static_cast<int32_t>(w.kernel.buffers.size());
  w.kernel.buffers.push_back(std::move(buffer));
  w.exchange_buffers[key] = out.buffer;
  return out;
}

/// Each warp leaves its part in shared memory.
void leave_part(GpuWriter& w, const Exchange& exchange, Reg value, int64_t result_point) {
  const auto num = [&](int64_t v) { return w.builder.int_constant(v); };
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  const Reg warp = thread_number(w, PlaceLevel::kWarp), lane = thread_number(w, PlaceLevel::kLane);
  const int64_t base = result_point * w.program.warps * exchange.lanes;
  Reg own = op(ScalarOp::kMul, warp, num(exchange.lanes));
  if (exchange.lanes > 1) own = op(ScalarOp::kAdd, own, lane);
  // Lanes that hold the same part: the first stores it.
  std::vector<ThreadDigit> copies;
  if (exchange.lanes == 1) copies.push_back({PlaceLevel::kLane, 1, 32});
  w.builder.store(exchange.buffer, op(ScalarOp::kAdd, own, num(base)), value,
                  copies.empty() ? kNoReg : is_first_copy(w, copies));
}

/// Each thread combines the parts of the warps that differ in the reduced digits only, in their
/// order.
Reg combine_parts(GpuWriter& w, const Exchange& exchange, Combiner combiner, int64_t result_point) {
  const auto num = [&](int64_t v) { return w.builder.int_constant(v); };
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  const Reg warp = thread_number(w, PlaceLevel::kWarp), lane = thread_number(w, PlaceLevel::kLane);
  const int64_t base = result_point * w.program.warps * exchange.lanes;
  // The first of the warps that are combined; for warps left over, of those whose copies they hold.
  Reg first =
      exchange.warps < w.program.warps ? op(ScalarOp::kRem, warp, num(exchange.warps)) : warp;
  for (const ThreadDigit& d : exchange.reduced) {
    first = op(ScalarOp::kSub, first, op(ScalarOp::kMul, emit_digit(w, d), num(d.stride)));
  }
  Reg from = op(ScalarOp::kMul, first, num(exchange.lanes));
  if (exchange.lanes > 1) from = op(ScalarOp::kAdd, from, lane);
  from = op(ScalarOp::kAdd, from, num(base));
  const ThreadDigit& only = exchange.reduced[0];
  const bool adjacent = exchange.reduced.size() == 1 && only.stride == 1 && exchange.lanes == 1 &&
                        std::has_single_bit(static_cast<uint64_t>(only.extent));
  if (adjacent) {
    return w.builder.reduce_lanes(
        combiner, w.builder.load(exchange.buffer, from, static_cast<int32_t>(only.extent)));
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
    const Reg part = w.builder.load(exchange.buffer, op(ScalarOp::kAdd, from, num(o)), 1);
    sum = sum == kNoReg ? part : combine_values(w, combiner, sum, part);
  }
  return sum;
}

}  // namespace

Reg reduce_over_lanes(GpuWriter& w, const Box& box, const TileStatement& statement,
                      Combiner combiner, Reg value) {
  for (const Box::Axis& axis : box.axes) {
    const auto& reduced = statement.reduce_axes;
    if (std::find(reduced.begin(), reduced.end(), axis.var) == reduced.end()) continue;
    for (const auto& [digit, step] : axis.threads) {
      if (digit.level != PlaceLevel::kLane) continue;
      WEFT_CHECK(std::has_single_bit(static_cast<uint64_t>(digit.extent)) &&
                     std::has_single_bit(static_cast<uint64_t>(digit.stride)),
                 "a reduction over lanes that are no power of two in " + w.program.name);
      for (int64_t apart = digit.extent / 2; apart >= 1; apart /= 2) {
        value = each_lane(
            w, value,
            [&](Reg scalar) {
              return w.builder.warp_xor(scalar, static_cast<int32_t>(apart * digit.stride));
            },
            combiner);
      }
    }
  }
  return value;
}

void reduce_over_warps(GpuWriter& w, const Box& box, const ReductionKey& key, Combiner combiner,
                       std::vector<Reg>* values) {
  const auto made = std::find_if(values->begin(), values->end(), [](Reg r) { return r != kNoReg; });
  if (made == values->end() || !spans_warps(box, *key.first)) return;
  const KernelType type = w.builder.type(*made);
  const Exchange exchange =
      make_exchange(w, box, key, type.dtype, static_cast<int64_t>(values->size()) * type.lanes);
  const auto slot = [&](size_t i, int32_t lane) {
    return static_cast<int64_t>(i) * type.lanes + lane;
  };
  const auto lane_of = [&](Reg r, int32_t lane) {
    return w.builder.type(r).lanes == 1 ? r : w.builder.extract(r, lane);
  };
  for (size_t i = 0; i < values->size(); ++i) {
    if ((*values)[i] == kNoReg) continue;
    for (int32_t l = 0; l < type.lanes; ++l) {
      leave_part(w, exchange, lane_of((*values)[i], l), slot(i, l));
    }
  }
  for (size_t i = 0; i < values->size(); ++i) {
    if ((*values)[i] == kNoReg) continue;
    std::vector<Reg> parts;
    for (int32_t l = 0; l < type.lanes; ++l) {
      parts.push_back(combine_parts(w, exchange, combiner, slot(i, l)));
    }
    (*values)[i] = join_lanes(w, std::move(parts));
  }
}

void place_exchanges(GpuWriter& w) {
  std::array<int64_t, 2> bytes{};
  std::vector<int32_t> buffers;
  for (const auto& [key, buffer] : w.exchange_buffers) buffers.push_back(buffer);
  std::ranges::sort(buffers);  // in the order of their statements
  const auto place_of = [&](size_t i) -> KernelBuffer& {
    return w.kernel.buffers[static_cast<size_t>(buffers[i])];
  };
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t own = (place_of(i).elements * byte_size(place_of(i).dtype) + 15) / 16 * 16;
    bytes[i % 2] = std::max(bytes[i % 2], own);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    place_of(i).scratch_offset = w.kernel.shared_bytes + (i % 2 == 0 ? 0 : bytes[0]);
  }
  w.kernel.shared_bytes += bytes[0] + bytes[1];
}

}  // namespace weft::lowering
