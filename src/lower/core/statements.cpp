#include "lower/core/statements.h"

#include "lower/core/box_variables.h"

#include <algorithm>
#include <functional>

#include "lower/core/buffers.h"
#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"
#include "lower/core/reductions.h"
#include "lower/core/rolled_boxes.h"
#include "lower/core/thread_digits.h"

namespace weft::lowering {

namespace {

/// Whether an update's mask excludes what was excluded when the carry began: lanes of a tail
/// around the whole loop, which nothing reads.
bool masked_since_entry(const KernelWriter& w, TileSymbolId carry, int64_t number, Reg mask) {
  const auto it = w.registers.carry_masks.find(carry);
  return it != w.registers.carry_masks.end() && it->second[static_cast<size_t>(number)] == mask;
}

void emit_assignment(KernelWriter& w, const TileStatement& statement, const Box& box) {
  const TileRef& target = statement.targets[0];
  const DType type = w.program.symbols[static_cast<size_t>(target.symbol)].type;
  const PreparedIndex offset =
      w.memory.buffer_of[static_cast<size_t>(target.symbol)] >= 0
          ? prepare(w, buffer_offset(w, target.symbol, target.indices, target.next))
          : PreparedIndex{};
  const bool in_register = w.memory.buffer_of[static_cast<size_t>(target.symbol)] < 0;
  RegisterTile tile;
  if (in_register) tile = make_tile(w, target, box);
  if (!in_register && w.fill_rows(statement, box, offset)) return;
  // Other elements of what it stores to are read before.
  const bool reads_before = w.is_gpu() && reads_target(statement);
  std::vector<std::function<void()>> stores;
  for_each_point(box, [&](int64_t number, const Point& point) {
    bool skip = false;
    const Reg mask = lane_mask_of(w, box, point, &skip);
    if (skip) return;
    Reg value = evaluate(w, statement.value, point, mask);
    if (w.builder.type(value).dtype != type)
      value = w.builder.apply(ScalarOp::kConvert, {value}, type);
    if (!in_register) {
      const auto store = [&, point, value, mask] {
        store_element(w, target, offset, box, point, value, store_mask(w, mask, box));
      };
      if (reads_before) {
        stores.emplace_back(store);
      } else {
        store();
      }
      return;
    }
    if (target.next && mask != kNoReg && !masked_since_entry(w, target.symbol, number, mask)) {
      // Predicated off, a carry keeps its value.
      const Reg old = w.registers.tiles.at(target.symbol).regs[static_cast<size_t>(number)];
      const int32_t lanes = w.builder.type(old).lanes;
      value = w.builder.apply(ScalarOp::kSelect,
                              {to_lanes(w, mask, lanes), to_lanes(w, value, lanes), old}, type);
    }
    tile.regs[static_cast<size_t>(number)] = to_lanes(w, value, box.lanes);
  });
  for (const auto& store : stores) store();
  if (!in_register) return;
  if (target.next) {
    const std::vector<Reg>& old = w.registers.tiles.at(target.symbol).regs;
    for (size_t i = 0; i < tile.regs.size(); ++i) {
      if (tile.regs[i] == kNoReg) tile.regs[i] = old[i];
    }
  }
  (target.next ? w.registers.next : w.registers.tiles)[target.symbol] = std::move(tile);
}

}  // namespace

void emit_statement(KernelWriter& w, const TileStatement& statement) {
  ++w.bindings.emitted_statements;
  if (w.emit_by_unit(statement)) return;
  std::vector<TileVarId> vars;
  for (const TileRef& t : statement.targets) {
    for (const IndexExpr& e : t.indices) add_box_variables(w.program, e, &vars);
  }
  const auto add_reads = [&](const Scalar& n) {
    if (n.kind == Scalar::Kind::kIndex) add_box_variables(w.program, n.index, &vars);
    for (const IndexExpr& e : n.indices) add_box_variables(w.program, e, &vars);
  };
  if (statement.combiner != TileCombiner::kNone) {
    visit(statement.value, add_reads);
    for (const TileVarId v : statement.reduce_axes) {
      if (std::find(vars.begin(), vars.end(), v) == vars.end()) vars.push_back(v);
    }
  }
  WEFT_CHECK(statement.assign == AssignOp::kAssign,
             "a scatter has no form here: " + w.program.name);
  Box box = w.make_box(vars, w.place_of(statement));
  const bool whole = fills_matrix_rows(w, statement.targets[0].symbol);
  const std::vector<RolledDigit> rolled =
      whole ? std::vector<RolledDigit>{} : w.roll(statement, false, &box);
  if (!rolled.empty()) w.hoist_loads(statement, box, rolled);
  emit_rolled(w, rolled, 0, box, {}, [&](const Box& inner, const std::vector<Reg>&) {
    if (statement.combiner != TileCombiner::kNone) {
      emit_reduction(w, statement, inner);
    } else {
      emit_assignment(w, statement, inner);
    }
    return std::vector<Reg>{};
  });
  w.at_hand.hoisted.clear();
}

bool reads_target(const TileStatement& statement) {
  bool reads = false;
  visit(statement.value, [&](const Scalar& n) {
    reads |= n.kind == Scalar::Kind::kRead && n.symbol == statement.targets[0].symbol;
  });
  return reads;
}

Reg store_mask(KernelWriter& w, Reg mask, const Box& box) {
  return box.copies.empty() ? mask : combine_guards(w, mask, is_first_copy(w, box.copies));
}

RegisterTile make_tile(KernelWriter& w, const TileRef& target, const Box& box) {
  RegisterTile tile;
  tile.box = box;
  tile.regs.assign(static_cast<size_t>(box.points()), kNoReg);
  for (const IndexExpr& e : target.indices) {
    std::vector<TileVarId> vars;
    add_box_variables(w.program, e, &vars);
    WEFT_CHECK(vars.size() <= 1,
               "a register's coordinate runs along two axes in " + w.program.name);
    tile.axis.push_back(vars.empty() ? -1 : box.find(vars[0]));
    const IndexExpr base =
        bind(w, substitute(e, [&](int id) -> IndexExpr {
               return !vars.empty() && id == vars[0] ? IndexExpr(0) : IndexExpr::var(id);
             }));
    tile.base.push_back(base);
  }
  return tile;
}

void store_element(KernelWriter& w, const TileRef& target, const PreparedIndex& offset,
                   const Box& box, const Point& point, Reg value, Reg mask) {
  const int32_t buffer = w.memory.buffer_of[static_cast<size_t>(target.symbol)];
  const auto at = affine_at_point(w, offset, point);
  const int64_t lane_coefficient = at ? at->lane_coefficient : 0;
  const bool spread = lane_coefficient != 0 && lane_coefficient != 1;
  Reg address = kNoReg;
  if (at) {
    address = spread ? emit_terms(w, at->terms, at->constant) : swizzled(w, target.symbol, *at);
  } else {
    address = swizzled(w, target.symbol,
                       emit_index(w, simplify(at_point(w, offset, point),
                                              [&](int id) { return range_of_var(w, id); })));
  }
  const bool vector_address = w.builder.type(address).lanes > 1;
  if (!vector_address && lane_coefficient == 0) {
    // One element; of a tail of one, the first lane's.
    const auto first_lane = [&](Reg r) {
      return r == kNoReg || w.builder.type(r).lanes == 1 ? r : w.builder.extract(r, 0);
    };
    w.builder.store(buffer, address, first_lane(value), first_lane(mask));
    return;
  }
  value = to_lanes(w, value, box.lanes);
  if (mask != kNoReg) mask = to_lanes(w, mask, box.lanes);
  if (!vector_address && lane_coefficient == 1) {
    w.builder.store(buffer, address, value, mask);
    return;
  }
  Reg offsets = to_lanes(w, address, box.lanes);
  if (lane_coefficient != 0) {
    const Reg step =
        w.builder.apply(ScalarOp::kMul,
                        {w.builder.ramp(DType::kI64, box.lanes),
                         w.builder.broadcast(w.builder.int_constant(lane_coefficient), box.lanes)},
                        DType::kI64);
    offsets = w.builder.apply(ScalarOp::kAdd, {offsets, step}, DType::kI64);
  }
  if (spread) offsets = swizzled(w, target.symbol, offsets);
  w.builder.scatter(buffer, offsets, value, mask);
}

namespace {

/// Stores of a first value that are written out at most.
constexpr int64_t kMostWritten = 64;

std::vector<RolledDigit> roll_many_points(Box* box) {
  std::vector<RolledDigit> out;
  for (size_t a = 0; a < box->axes.size() && box->points() > kMostWritten; ++a) {
    Box::Axis& axis = box->axes[a];
    if (axis.regs == 1 || axis.digits.size() != 1) continue;
    out.push_back({a, axis.regs, axis.digits[0].divisor});
    axis.regs = axis.digits[0].extent = 1;
  }
  return out;
}

std::vector<Reg> emit_initial(KernelWriter& w, const TileCarry& carry, const Box& box) {
  const DType type = w.program.symbols[static_cast<size_t>(carry.target.symbol)].type;
  const bool in_register = w.memory.buffer_of[static_cast<size_t>(carry.target.symbol)] < 0;
  RegisterTile tile;
  PreparedIndex offset;
  if (in_register) {
    tile = make_tile(w, carry.target, box);
  } else {
    offset = prepare(w, buffer_offset(w, carry.target.symbol, carry.target.indices));
  }
  const ScalarValue none = is_float(type) ? float_value(type, 0) : int_value(type, 0);
  std::vector<Reg> masks(static_cast<size_t>(box.points()), kNoReg);
  for_each_point(box, [&](int64_t number, const Point& point) {
    bool skip = false;
    const Reg mask = lane_mask_of(w, box, point, &skip);
    masks[static_cast<size_t>(number)] = mask;
    if (skip && !in_register) return;
    // Nothing reads what lies beyond the tail, and what it would be made of may not be there.
    Reg value = skip && carry.initial->kind != Scalar::Kind::kConstant
                    ? w.builder.constant({type, 1}, none)
                    : evaluate(w, carry.initial, point, skip ? kNoReg : mask);
    if (w.builder.type(value).dtype != type)
      value = w.builder.apply(ScalarOp::kConvert, {value}, type);
    if (in_register) {
      tile.regs[static_cast<size_t>(number)] = to_lanes(w, value, box.lanes);
    } else {
      store_element(w, carry.target, offset, box, point, value, store_mask(w, mask, box));
    }
  });
  if (!in_register) return {};
  w.registers.carry_masks[carry.target.symbol] = std::move(masks);
  std::vector<Reg> regs = tile.regs;
  w.registers.tiles[carry.target.symbol] = std::move(tile);
  return regs;
}

}  // namespace

std::vector<Reg> initial_carry(KernelWriter& w, const TileCarry& carry) {
  std::vector<TileVarId> vars;
  for (const IndexExpr& e : carry.target.indices) add_box_variables(w.program, e, &vars);
  Place place = carry.place;
  if (place.empty()) place = w.scopes.symbols[static_cast<size_t>(carry.target.symbol)].place;
  Box box = w.make_box(vars, place);
  std::vector<RolledDigit> rolled;
  if (w.memory.buffer_of[static_cast<size_t>(carry.target.symbol)] >= 0)
    rolled = roll_many_points(&box);
  return emit_rolled(w, rolled, 0, box, {}, [&](const Box& inner, const std::vector<Reg>&) {
    return emit_initial(w, carry, inner);
  });
}

}  // namespace weft::lowering
