#include "lower/core/reads.h"

#include <optional>
#include <utility>

#include "lower/core/buffers.h"
#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"
#include "lower/core/load_guards.h"
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

/// What runtime_index keeps an index in.
Interval range_of_runtime(KernelWriter& w, const Scalar& read, int id, const TileSymbol& symbol) {
  Interval out = kUnbounded;
  for (size_t a = 0; a < read.indices.size(); ++a) {
    if (!uses_var(read.indices[a], id)) continue;
    const IndexExpr extent = bind(w, symbol.shape[a]);
    if (!extent.is_const() || extent.constant() < 1) return kUnbounded;
    if (out.hi >= extent.constant()) out = {0, extent.constant() - 1};
  }
  return out;
}

/// Digits of one number as the runtime indices of two axes, as a reshape in front of a gather
/// leaves them: x[n / C, n % C], where n lies in [0, R * C) and the axes are R and C long.
struct Digits {
  size_t quotient = 0, remainder = 0;  ///< operands of the read
  ScalarRef number;
  int64_t end = 0;  ///< R * C
};

std::optional<int64_t> integer_of(const ScalarRef& s) {
  if (s->kind != Scalar::Kind::kConstant || s->type != DType::kI64) return std::nullopt;
  return s->value.i;
}

/// op(e, c) with a constant c on either side: e and c.
std::optional<std::pair<ScalarRef, int64_t>> with_constant(const ScalarRef& s, ScalarOp op) {
  if (s->kind != Scalar::Kind::kApply || s->op != op || s->type != DType::kI64) return std::nullopt;
  const bool commutes = op == ScalarOp::kMin || op == ScalarOp::kMax;
  for (const size_t at : {size_t{1}, size_t{0}}) {
    if (at == 0 && !commutes) break;
    if (const auto c = integer_of(s->operands[at])) return std::pair(s->operands[1 - at], *c);
  }
  return std::nullopt;
}

/// Whether the number is kept in [0, end) by a minimum and a maximum.
bool is_kept_below(const ScalarRef& number, int64_t end) {
  for (const auto& [outer, inner] :
       {std::pair(ScalarOp::kMin, ScalarOp::kMax), std::pair(ScalarOp::kMax, ScalarOp::kMin)}) {
    const auto first = with_constant(number, outer);
    if (!first) continue;
    const auto second = with_constant(first->first, inner);
    if (!second) continue;
    const int64_t least = outer == ScalarOp::kMin ? second->second : first->second;
    const int64_t most = outer == ScalarOp::kMin ? first->second : second->second;
    return least >= 0 && least <= most && most < end;
  }
  return false;
}

/// The axis whose index is the operand's value, and nothing else.
std::optional<size_t> axis_of(const Scalar& read, size_t operand) {
  const IndexExpr index = IndexExpr::var(kRuntimeIndexBase + static_cast<int>(operand));
  std::optional<size_t> out;
  for (size_t a = 0; a < read.indices.size(); ++a) {
    if (!uses_var(read.indices[a], index.var_id())) continue;
    if (out || !(read.indices[a] == index)) return std::nullopt;
    out = a;
  }
  return out;
}

/// Two indices whose elements lie as those of one axis R * C long.
std::optional<Digits> digits_of(KernelWriter& w, const Scalar& read, const TileSymbol& symbol) {
  for (size_t q = 0; q < read.operands.size(); ++q) {
    const auto quotient = with_constant(read.operands[q], ScalarOp::kDiv);
    if (!quotient) continue;
    for (size_t r = 0; r < read.operands.size(); ++r) {
      const auto remainder = with_constant(read.operands[r], ScalarOp::kRem);
      if (!remainder || remainder->second != quotient->second ||
          !equal(remainder->first, quotient->first))
        continue;
      const auto rows = axis_of(read, q), columns = axis_of(read, r);
      if (!rows || !columns) continue;
      const IndexExpr length = bind(w, symbol.shape[*rows]),
                      width = bind(w, symbol.shape[*columns]);
      if (!length.is_const() || !width.is_const() || width.constant() != quotient->second) continue;
      const int64_t end = length.constant() * width.constant();
      if (!is_kept_below(quotient->first, end)) continue;
      AffineForm offset;
      if (!as_affine(
              buffer_offset(w, static_cast<TileSymbolId>(read.symbol), read.indices, read.next),
              &offset))
        continue;
      const int64_t of_row = offset.coefficient(kRuntimeIndexBase + static_cast<int>(q)),
                    of_column = offset.coefficient(kRuntimeIndexBase + static_cast<int>(r));
      if (of_row == width.constant() * of_column) return Digits{q, r, quotient->first, end};
    }
  }
  return std::nullopt;
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
    if (guard == kNoReg) return w.builder.load(buffer, address, 1);
    // What the guard excludes is never used: any address inside the buffer will do.
    if (!lies_in_buffer(w, buffer, offset, point))
      address = clamped(w, address, emit_index(w, extent - 1));
    const Reg own = made_guard(w, buffer, read, point);
    return own == kNoReg ? w.builder.load(buffer, address, 1)
                         : w.builder.load(buffer, address, 1, own, zero);
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
  if (!w.is_gpu() && elements > 1) {
    // Without a mask, which makes a branch of each lane where there is no instruction for it.
    const Interval reach = range_of(at_point(w, offset, point), range);
    if (reach.lo >= 0 && reach.hi < elements) {
      const int32_t lanes = w.at_hand.box.lanes;
      const Reg nothing = w.builder.constant({read.type, lanes}, zero);
      return w.builder.apply(
          ScalarOp::kSelect,
          {to_lanes(w, guard, lanes), w.builder.gather(buffer, offsets), nothing}, read.type);
    }
  }
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
  std::vector<KernelVars::Runtime> runtime;
  const std::optional<Digits> digits = digits_of(w, read, info);
  for (size_t r = 0; r < read.operands.size(); ++r) {
    KernelVars::Runtime& index = runtime.emplace_back();
    index.id = kRuntimeIndexBase + static_cast<int>(r);
    if (digits && r == digits->quotient) {
      index.value = w.builder.int_constant(0);
      index.range = {0, 0};
    } else if (digits && r == digits->remainder) {
      index.value = evaluate(w, digits->number, point, guard);
      index.range = {0, digits->end - 1};
    } else {
      index.value = runtime_index(w, read, r, info, point, guard);
      index.range = range_of_runtime(w, read, index.id, info);
    }
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
