#include "lower/core/reads.h"

#include "lower/core/buffers.h"
#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"
#include "lower/core/register_reads.h"

namespace weft::lowering {

namespace {

Reg runtime_index(KernelWriter& w, const Scalar& read, size_t number, const TileSymbol& symbol,
                  const Point& point, Reg guard) {
  Reg value = evaluate(w, read.operands[number], point, guard);
  const int32_t lanes = w.builder.type(value).lanes;
  if (w.builder.type(value).dtype != DType::kI64) {
    value = w.builder.apply(ScalarOp::kConvert, {value}, DType::kI64);
  }
  for (size_t a = 0; a < read.indices.size(); ++a) {
    if (!uses_var(read.indices[a], kRuntimeIndexBase + static_cast<int>(number))) continue;
    const Reg low = to_lanes(w, w.builder.int_constant(0), lanes);
    const Reg high = to_lanes(w, emit_index(w, bind(w, symbol.shape[a]) - 1), lanes);
    value = w.builder.apply(ScalarOp::kMax, {value, low}, DType::kI64);
    value = w.builder.apply(ScalarOp::kMin, {value, high}, DType::kI64);
  }
  return value;
}

/// The address from 0 up to `most`.
Reg clamped(KernelWriter& w, Reg address, Reg most) {
  address = w.builder.apply(ScalarOp::kMax, {address, w.builder.int_constant(0)}, DType::kI64);
  return w.builder.apply(ScalarOp::kMin, {address, most}, DType::kI64);
}

/// Whether elements of `size` bytes may be far from a buffer of so many. Near it something else
/// lies in memory, as a rule; where nothing does, a masked load takes a hundred cycles to find that
/// out.
bool reaches_far(const Interval& reach, int64_t elements, int64_t size) {
  constexpr int64_t kFar = 1 << 15;  // bytes
  return reach.lo < -kFar / size || reach.hi > elements + kFar / size;
}

Reg load_element(KernelWriter& w, int32_t buffer, const Scalar& read, const PreparedIndex& offset,
                 const Point& point, Reg guard) {
  const IndexExpr extent = w.memory.elements[static_cast<size_t>(buffer)];
  const int64_t elements = extent.is_const() ? extent.constant() : 1;
  const ScalarValue zero =
      is_float(read.type) ? float_value(read.type, 0) : int_value(read.type, 0);
  if (elements == 0) return w.builder.constant({read.type, 1}, zero);  // a guard excludes it all
  const auto range = [&](int id) { return range_of_var(w, id); };
  const auto at = affine_at_point(w, offset, point);
  Reg address = kNoReg;
  int64_t lane_coefficient = 0;
  if (at) {
    lane_coefficient = at->lane_coefficient;
    address = emit_terms(w, at->terms, at->constant);
  } else {
    IndexExpr e = simplify(at_point(w, offset, point), range);
    lane_coefficient = lane_step(e, &e).value_or(0);
    address = emit_index(w, e);
  }
  const bool vector_address = w.builder.type(address).lanes > 1;

  if (!vector_address && lane_coefficient == 0) {
    if (w.is_gpu() && guard != kNoReg && w.builder.type(guard).lanes == 1) {
      return w.builder.load(buffer, address, 1, guard, zero);
    }
    if (guard != kNoReg) {
      // What the guard excludes is never used: any address inside the buffer will do.
      if (!lies_in_buffer(w, buffer, offset, point))
        address = clamped(w, address, emit_index(w, extent - 1));
    }
    return w.builder.load(buffer, address, 1);
  }
  if (!vector_address && lane_coefficient == 1) {
    if (guard != kNoReg) {
      const Interval reach = range_of(at_point(w, offset, point), range);
      const int64_t lanes = w.at_hand.box.lanes;
      if (!w.is_gpu() && reach.lo >= 0 && reach.hi < elements) {
        guard = kNoReg;
      } else if (!w.is_gpu() && w.builder.type(guard).lanes == 1 && extent.is_const() &&
                 elements >= lanes && reaches_far(reach, elements, byte_size(read.type))) {
        address = clamped(w, address, w.builder.int_constant(elements - lanes));
        guard = kNoReg;
      }
    }
    return guard == kNoReg ? w.builder.load(buffer, address, w.at_hand.box.lanes)
                           : w.builder.load(buffer, address, w.at_hand.box.lanes,
                                            to_lanes(w, guard, w.at_hand.box.lanes), zero);
  }
  if (!at || !vector_address) {
    const auto spread = w.load_spread(buffer, read, offset, at.has_value(), point, guard);
    if (spread) return *spread;
  }
  Reg offsets = to_lanes(w, address, w.at_hand.box.lanes);
  if (lane_coefficient != 0) {
    Reg step = w.builder.ramp(DType::kI64, w.at_hand.box.lanes);
    step = w.builder.apply(
        ScalarOp::kMul,
        {step, w.builder.broadcast(w.builder.int_constant(lane_coefficient), w.at_hand.box.lanes)},
        DType::kI64);
    offsets = w.builder.apply(ScalarOp::kAdd, {offsets, step}, DType::kI64);
  }
  if (guard == kNoReg) return w.builder.gather(buffer, offsets);
  return w.builder.gather(buffer, offsets, to_lanes(w, guard, w.at_hand.box.lanes), zero);
}

}  // namespace

Reg evaluate_read(KernelWriter& w, const Scalar& read, const Point& point, Reg guard) {
  const auto symbol = static_cast<TileSymbolId>(read.symbol);
  const auto& tiles = read.next ? w.registers.next : w.registers.tiles;
  if (const auto found = tiles.find(symbol); found != tiles.end()) {
    return read_register(w, read, found->second, point);
  }
  const int32_t buffer = w.memory.buffer_of[static_cast<size_t>(symbol)];
  WEFT_CHECK(buffer >= 0, "value " + w.program.symbols[static_cast<size_t>(symbol)].name +
                              " is read where it is not in a register, in " + w.program.name);

  WEFT_CHECK(!fills_matrix_rows(w, symbol), "rows of a matrix unit are read one by one");
  const TileSymbol& info = w.program.symbols[static_cast<size_t>(symbol)];
  std::vector<std::pair<int, Reg>> runtime;
  for (size_t r = 0; r < read.operands.size(); ++r) {
    runtime.emplace_back(kRuntimeIndexBase + static_cast<int>(r),
                         runtime_index(w, read, r, info, point, guard));
  }
  if (const auto elsewhere = w.read_elsewhere(read, point, guard)) return *elsewhere;
  auto it = w.at_hand.prepared.find(&read);
  if (it == w.at_hand.prepared.end()) {
    it = w.at_hand.prepared
             .emplace(&read, prepare(w, buffer_offset(w, symbol, read.indices, read.next)))
             .first;
  }
  std::swap(w.vars.runtime_indices, runtime);
  const Reg loaded = load_element(w, buffer, read, it->second, point, guard);
  std::swap(w.vars.runtime_indices, runtime);
  return loaded;
}

}  // namespace weft::lowering
