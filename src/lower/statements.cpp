#include <algorithm>

#include "lower/lowering.h"
#include "tile/places.h"

namespace weft::lowering {

namespace {

void add_box_variables(const TileProgram& program, const IndexExpr& e,
                       std::vector<TileVarId>* vars) {
  for (const int id : variables(e)) {
    if (id >= kKernelVarBase) continue;
    const auto kind = program.vars[static_cast<size_t>(id)].kind;
    if (kind != TileVar::Kind::kOffset && kind != TileVar::Kind::kAxis) continue;
    if (std::find(vars->begin(), vars->end(), id) == vars->end()) vars->push_back(id);
  }
}

}  // namespace

Place Lowering::resolved_place(const TileStatement& statement) const {
  if (gpu_) return statement_places_.at(&statement);
  if (!statement.place.empty()) return statement.place;
  // That of the first read, reduced axes included: a reduction's place covers its domain.
  Place place;
  visit(statement.value, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kRead || !place.empty()) return;
    const auto& tiles = n.next ? next_tiles_ : tiles_;
    const auto it = tiles.find(static_cast<TileSymbolId>(n.symbol));
    if (it == tiles.end()) return;
    for (size_t c = 0; c < n.indices.size(); ++c) {
      if (it->second.axis[c] < 0) continue;
      const Box::Axis& axis = it->second.box.axes[static_cast<size_t>(it->second.axis[c])];
      std::vector<TileVarId> vars;
      add_box_variables(program_, n.indices[c], &vars);
      if (vars.size() != 1) continue;
      Place::Axis a{vars[0], {}};
      if (axis.regs > 1 || axis.lanes == 1) a.digits.push_back({PlaceLevel::kReg, axis.regs});
      if (axis.lanes > 1) a.digits.push_back({PlaceLevel::kVec, axis.lanes});
      place.axes.push_back(a);
    }
  });
  // Else that of the first value in memory which has one along what is read of it.
  visit(statement.value, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kRead || !place.empty()) return;
    const Place& made = scopes_.symbols[static_cast<size_t>(n.symbol)].place;
    const bool along = std::ranges::all_of(made.axes, [&](const Place::Axis& a) {
      return std::ranges::any_of(n.indices, [&](const IndexExpr& e) { return uses_var(e, a.var); });
    });
    if (along) place = made;
  });
  return place;
}

/// On a GPU: every digit of the place, and which threads hold copies.
Box Lowering::make_thread_box(const std::vector<TileVarId>& vars, const Place& place) {
  Box box;
  for (const TileVarId var : vars) {
    Box::Axis axis;
    axis.var = var;
    for (const PlacedDigit& d : placed_digits(place, var)) {
      switch (d.level) {
        case PlaceLevel::kReg:
          axis.regs *= d.extent;
          axis.digits.insert(axis.digits.begin(), {d.extent, d.divisor});
          break;
        case PlaceLevel::kVec:
          WEFT_CHECK(d.divisor == 1 && box.vec_axis < 0,
                     "vector elements that are not the innermost digit in " + program_.name);
          axis.lanes = d.extent;
          box.vec_axis = static_cast<int>(box.axes.size());
          box.lanes = static_cast<int32_t>(d.extent);
          break;
        default:
          axis.threads.push_back({{d.level, d.stride, d.extent}, d.divisor});
          thread_var(axis.threads.back().first);
      }
    }
    std::sort(axis.digits.begin(), axis.digits.end(),
              [](const Box::RegDigit& a, const Box::RegDigit& b) { return a.divisor > b.divisor; });
    box.axes.push_back(std::move(axis));
  }
  for (const PlaceLevel level : {PlaceLevel::kLane, PlaceLevel::kWarp}) {
    const int64_t used = level_extent(place, level);
    WEFT_CHECK(used <= level_size(level), "a place of more threads than " + program_.name + " has");
    // What threads are left over hold copies too, of the first ones.
    if (used < level_size(level)) {
      box.copies.push_back({level, used, (level_size(level) + used - 1) / used});
    }
  }
  std::set<TileVarId> absent;
  for (const Place::Axis& axis : place.axes) {
    if (std::find(vars.begin(), vars.end(), axis.var) == vars.end()) absent.insert(axis.var);
  }
  for (const TileVarId var : absent) {
    for (const PlacedDigit& d : placed_digits(place, var)) {
      if (d.level == PlaceLevel::kLane || d.level == PlaceLevel::kWarp) {
        box.copies.push_back({d.level, d.stride, d.extent});
      }
    }
  }
  return box;
}

Box Lowering::make_box(const std::vector<TileVarId>& vars, const Place& place) {
  if (gpu_) return make_thread_box(vars, place);
  Box box;
  for (const TileVarId var : vars) {
    Box::Axis axis;
    axis.var = var;
    axis.regs = program_.vars[static_cast<size_t>(var)].extent;
    for (const Place::Axis& p : place.axes) {
      if (p.var != var) continue;
      axis.regs = 1;
      for (const Place::Digit& d : p.digits) {
        (d.level == PlaceLevel::kVec ? axis.lanes : axis.regs) *= d.extent;
      }
    }
    if (axis.lanes > 1) {
      WEFT_CHECK(box.vec_axis < 0, "two vector axes in one box of " + program_.name);
      box.vec_axis = static_cast<int>(box.axes.size());
      box.lanes = static_cast<int32_t>(axis.lanes);
    }
    axis.digits = {{axis.regs, axis.lanes}};
    WEFT_CHECK(axis.regs <= 256,
               "an axis of " + std::to_string(axis.regs) +
                   " elements has no place in registers; make it a seq loop, in " + program_.name);
    box.axes.push_back(axis);
  }
  return box;
}

void Lowering::emit_statement(const TileStatement& statement) {
  ++emitted_statements_;
  if (const auto product = unit_product(program_, statement)) {
    return emit_matrix_product(statement, *product, -1);
  }
  std::vector<TileVarId> vars;
  for (const TileRef& t : statement.targets) {
    for (const IndexExpr& e : t.indices) add_box_variables(program_, e, &vars);
  }
  const auto add_reads = [&](const Scalar& n) {
    if (n.kind == Scalar::Kind::kIndex) add_box_variables(program_, n.index, &vars);
    for (const IndexExpr& e : n.indices) add_box_variables(program_, e, &vars);
  };
  if (statement.combiner != TileCombiner::kNone) {
    visit(statement.value, add_reads);
    for (const TileVarId v : statement.reduce_axes) {
      if (std::find(vars.begin(), vars.end(), v) == vars.end()) vars.push_back(v);
    }
  }
  WEFT_CHECK(statement.assign == AssignOp::kAssign, "a scatter has no form here: " + program_.name);
  Box box = make_box(vars, resolved_place(statement));
  const bool whole = fills_matrix_rows(statement.targets[0].symbol);
  const std::vector<RolledDigit> rolled =
      whole ? std::vector<RolledDigit>{} : roll(statement, false, &box);
  if (!rolled.empty()) hoist_loads(statement, box, rolled);
  emit_rolled(rolled, 0, box, {}, [&](const Box& inner, const std::vector<Reg>&) {
    if (statement.combiner != TileCombiner::kNone) {
      emit_reduction(statement, inner);
    } else {
      emit_assignment(statement, inner);
    }
    return std::vector<Reg>{};
  });
  hoisted_.clear();
}

void Lowering::emit_assignment(const TileStatement& statement, const Box& box) {
  const TileRef& target = statement.targets[0];
  const DType type = program_.symbols[static_cast<size_t>(target.symbol)].type;
  const PreparedIndex offset =
      buffer_of_[static_cast<size_t>(target.symbol)] >= 0
          ? prepare(buffer_offset(target.symbol, target.indices, target.next))
          : PreparedIndex{};
  const bool in_register = buffer_of_[static_cast<size_t>(target.symbol)] < 0;
  RegisterTile tile;
  if (in_register) tile = make_tile(target, box);
  if (!in_register && fills_matrix_rows(target.symbol)) {
    for_each_point(box, [&](int64_t, const Point& point) {
      const FillMask mask = fill_mask(box, point);
      if (mask.outside) return;
      store_element(target, offset, box, point, filled_value(statement, point, mask),
                    store_mask(mask.tile, box));
    });
    return;
  }
  // Other elements of what it stores to are read before.
  bool reads_target = false;
  visit(statement.value, [&](const Scalar& n) {
    reads_target |= n.kind == Scalar::Kind::kRead && n.symbol == target.symbol;
  });
  std::vector<std::function<void()>> stores;
  for_each_point(box, [&](int64_t number, const Point& point) {
    bool skip = false;
    const Reg mask = lane_mask_of(box, point, &skip);
    if (skip) return;
    Reg value = evaluate(statement.value, point, mask);
    if (builder_.type(value).dtype != type)
      value = builder_.apply(ScalarOp::kConvert, {value}, type);
    if (!in_register) {
      const auto store = [&, point, value, mask] {
        store_element(target, offset, box, point, value, store_mask(mask, box));
      };
      if (gpu_ && reads_target) {
        stores.emplace_back(store);
      } else {
        store();
      }
      return;
    }
    if (target.next && mask != kNoReg && !masked_since_entry(target.symbol, number, mask)) {
      // Predicated off, a carry keeps its value.
      const Reg old = tiles_.at(target.symbol).regs[static_cast<size_t>(number)];
      const int32_t lanes = builder_.type(old).lanes;
      value = builder_.apply(ScalarOp::kSelect,
                             {to_lanes(mask, lanes), to_lanes(value, lanes), old}, type);
    }
    tile.regs[static_cast<size_t>(number)] = to_lanes(value, box.lanes);
  });
  for (const auto& store : stores) store();
  if (!in_register) return;
  if (target.next) {
    const std::vector<Reg>& old = tiles_.at(target.symbol).regs;
    for (size_t i = 0; i < tile.regs.size(); ++i) {
      if (tile.regs[i] == kNoReg) tile.regs[i] = old[i];
    }
  }
  (target.next ? next_tiles_ : tiles_)[target.symbol] = std::move(tile);
}

bool Lowering::masked_since_entry(TileSymbolId carry, int64_t number, Reg mask) const {
  const auto it = carry_masks_.find(carry);
  return it != carry_masks_.end() && it->second[static_cast<size_t>(number)] == mask;
}

/// One thread stores what several hold.
Reg Lowering::store_mask(Reg mask, const Box& box) {
  return box.copies.empty() ? mask : combine_guards(mask, is_first_copy(box.copies));
}

RegisterTile Lowering::make_tile(const TileRef& target, const Box& box) {
  RegisterTile tile;
  tile.box = box;
  tile.regs.assign(static_cast<size_t>(box.points()), kNoReg);
  for (const IndexExpr& e : target.indices) {
    std::vector<TileVarId> vars;
    add_box_variables(program_, e, &vars);
    WEFT_CHECK(vars.size() <= 1, "a register's coordinate runs along two axes in " + program_.name);
    tile.axis.push_back(vars.empty() ? -1 : box.find(vars[0]));
    const IndexExpr base = bind(substitute(e, [&](int id) -> IndexExpr {
      return !vars.empty() && id == vars[0] ? IndexExpr(0) : IndexExpr::var(id);
    }));
    tile.base.push_back(base);
  }
  return tile;
}

void Lowering::store_element(const TileRef& target, const PreparedIndex& offset, const Box& box,
                             const Point& point, Reg value, Reg mask) {
  const int32_t buffer = buffer_of_[static_cast<size_t>(target.symbol)];
  const auto at = affine_at_point(offset, point);
  const int64_t lane_coefficient = at ? at->lane_coefficient : 0;
  const bool spread = lane_coefficient != 0 && lane_coefficient != 1;
  Reg address = kNoReg;
  if (at) {
    address = spread ? emit_terms(at->terms, at->constant) : swizzled(target.symbol, *at);
  } else {
    address = swizzled(
        target.symbol,
        emit_index(simplify(at_point(offset, point), [this](int id) { return range_of_var(id); })));
  }
  const bool vector_address = builder_.type(address).lanes > 1;
  if (!vector_address && lane_coefficient == 0) {
    // One element; of a tail of one, the first lane's.
    const auto first_lane = [&](Reg r) {
      return r == kNoReg || builder_.type(r).lanes == 1 ? r : builder_.extract(r, 0);
    };
    builder_.store(buffer, address, first_lane(value), first_lane(mask));
    return;
  }
  value = to_lanes(value, box.lanes);
  if (mask != kNoReg) mask = to_lanes(mask, box.lanes);
  if (!vector_address && lane_coefficient == 1) {
    builder_.store(buffer, address, value, mask);
    return;
  }
  Reg offsets = to_lanes(address, box.lanes);
  if (lane_coefficient != 0) {
    const Reg step =
        builder_.apply(ScalarOp::kMul,
                       {builder_.ramp(DType::kI64, box.lanes),
                        builder_.broadcast(builder_.int_constant(lane_coefficient), box.lanes)},
                       DType::kI64);
    offsets = builder_.apply(ScalarOp::kAdd, {offsets, step}, DType::kI64);
  }
  if (spread) offsets = swizzled(target.symbol, offsets);
  builder_.scatter(buffer, offsets, value, mask);
}

/// The carry's first values; a carry of scratch scope is stored instead and yields none.
std::vector<Reg> Lowering::initial_carry(const TileCarry& carry) {
  std::vector<TileVarId> vars;
  for (const IndexExpr& e : carry.target.indices) add_box_variables(program_, e, &vars);
  Place place = carry.place;
  if (place.empty()) place = scopes_.symbols[static_cast<size_t>(carry.target.symbol)].place;
  const Box box = make_box(vars, place);
  begin_evaluation(box);
  const DType type = program_.symbols[static_cast<size_t>(carry.target.symbol)].type;
  const bool in_register = buffer_of_[static_cast<size_t>(carry.target.symbol)] < 0;
  RegisterTile tile;
  PreparedIndex offset;
  if (in_register) {
    tile = make_tile(carry.target, box);
  } else {
    offset = prepare(buffer_offset(carry.target.symbol, carry.target.indices));
  }
  const ScalarValue none = is_float(type) ? float_value(type, 0) : int_value(type, 0);
  std::vector<Reg> masks(static_cast<size_t>(box.points()), kNoReg);
  for_each_point(box, [&](int64_t number, const Point& point) {
    bool skip = false;
    const Reg mask = lane_mask_of(box, point, &skip);
    masks[static_cast<size_t>(number)] = mask;
    if (skip && !in_register) return;
    // Nothing reads what lies beyond the tail, and what it would be made of may not be there.
    Reg value = skip && carry.initial->kind != Scalar::Kind::kConstant
                    ? builder_.constant({type, 1}, none)
                    : evaluate(carry.initial, point, skip ? kNoReg : mask);
    if (builder_.type(value).dtype != type)
      value = builder_.apply(ScalarOp::kConvert, {value}, type);
    if (in_register) {
      tile.regs[static_cast<size_t>(number)] = to_lanes(value, box.lanes);
    } else {
      store_element(carry.target, offset, box, point, value, store_mask(mask, box));
    }
  });
  if (!in_register) return {};
  carry_masks_[carry.target.symbol] = std::move(masks);
  std::vector<Reg> regs = tile.regs;
  tiles_[carry.target.symbol] = std::move(tile);
  return regs;
}

}  // namespace weft::lowering
