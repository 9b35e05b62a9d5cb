#include <algorithm>

#include "lower/lowering.h"

namespace weft::lowering {

namespace {

Combiner scalar_combiner(TileCombiner c) {
  switch (c) {
    case TileCombiner::kSum:
      return Combiner::kSum;
    case TileCombiner::kProd:
      return Combiner::kProd;
    case TileCombiner::kMin:
      return Combiner::kMin;
    case TileCombiner::kMax:
      return Combiner::kMax;
    case TileCombiner::kAnd:
      return Combiner::kAnd;
    case TileCombiner::kOr:
      return Combiner::kOr;
    default:
      throw_internal_error(__FILE__, __LINE__, "combiner", "of pairs, where one value is made");
  }
}

bool reduces(const TileStatement& statement, TileVarId v) {
  return std::find(statement.reduce_axes.begin(), statement.reduce_axes.end(), v) !=
         statement.reduce_axes.end();
}

}  // namespace

Lowering::ReducedBox Lowering::reduced_box(const TileStatement& statement, const Box& box) const {
  ReducedBox out;
  for (size_t a = 0; a < box.axes.size(); ++a) {
    if (reduces(statement, box.axes[a].var)) continue;
    out.kept.push_back(static_cast<int>(a));
    if (static_cast<int>(a) == box.vec_axis) {
      out.box.vec_axis = static_cast<int>(out.box.axes.size());
      out.box.lanes = box.lanes;
    }
    out.box.axes.push_back(box.axes[a]);
  }
  out.box.copies = box.copies;
  for (const Box::Axis& axis : box.axes) {
    if (!reduces(statement, axis.var)) continue;
    for (const auto& [digit, step] : axis.threads) out.box.copies.push_back(digit);
  }
  return out;
}

void Lowering::emit_reduction(const TileStatement& statement, const Box& box) {
  const ReducedBox result = reduced_box(statement, box);
  switch (statement.combiner) {
    case TileCombiner::kWelford:
      return emit_welford(statement, box, result, contributions(statement, box, result));
    case TileCombiner::kArgMax:
      return emit_argmax(statement, box, result, contributions(statement, box, result));
    default:
      break;
  }
  const Combiner combiner = scalar_combiner(statement.combiner);
  Box inner = box;
  const std::vector<RolledDigit> rolled = roll(statement, true, &inner);
  const std::vector<Contribution> parts =
      rolled.empty() ? contributions(statement, box, result)
                     : reduce_in_loops(statement, combiner, rolled, std::move(inner), result);
  write_reduced(statement.targets[0], result, reduce(statement, 0, combiner, box, result, parts));
}

std::vector<Lowering::Contribution> Lowering::contributions(const TileStatement& statement,
                                                            const Box& box,
                                                            const ReducedBox& result) {
  std::vector<Contribution> parts;
  for_each_point(box, [&](int64_t, const Point& point) {
    bool skip = false;
    const Reg mask = lane_mask_of(box, point, &skip);
    if (skip) return;
    size_t number = 0;
    for (const int a : result.kept) {
      number = number * static_cast<size_t>(box.axes[static_cast<size_t>(a)].regs) +
               static_cast<size_t>(point[static_cast<size_t>(a)]);
    }
    parts.push_back({number, point, mask, evaluate(statement.value, point, mask)});
  });
  return parts;
}

/// Digits of reduced axes that would be too many to write out are loops with the results as
/// carries; what each thread has made is its one contribution to a result.
std::vector<Lowering::Contribution> Lowering::reduce_in_loops(
    const TileStatement& statement, Combiner combiner, const std::vector<RolledDigit>& rolled,
    Box box, const ReducedBox& result) {
  const int32_t lanes = box.lanes;
  const Reg identity = builder_.constant({statement.value->type, lanes},
                                         combiner_identity(combiner, statement.value->type));
  const std::vector<Reg> first(static_cast<size_t>(result.box.points()), identity);
  const std::vector<Reg> sums = emit_rolled(
      rolled, 0, std::move(box), first, [&](const Box& b, const std::vector<Reg>& before) {
        const auto parts = by_result(contributions(statement, b, result), result);
        std::vector<Reg> after = before;
        for (size_t i = 0; i < parts.size(); ++i) {
          if (parts[i].empty()) continue;
          const Reg own = combine_contributions(combiner, parts[i]);
          after[i] = combine_values(combiner, before[i], to_lanes(own, lanes));
        }
        return after;
      });
  std::vector<Contribution> out;
  for (size_t i = 0; i < sums.size(); ++i) out.push_back({i, {}, kNoReg, sums[i]});
  return out;
}

std::vector<std::vector<Lowering::Contribution>> Lowering::by_result(
    const std::vector<Contribution>& contributed, const ReducedBox& result) {
  std::vector<std::vector<Contribution>> out(static_cast<size_t>(result.box.points()));
  for (const Contribution& c : contributed) out[c.result].push_back(c);
  return out;
}

/// Of one result: pairwise, neighbours first.
Reg Lowering::combine_contributions(Combiner combiner, const std::vector<Contribution>& parts) {
  std::vector<Reg> p;
  for (const Contribution& c : parts) {
    p.push_back(c.value);
    if (c.mask == kNoReg) continue;
    const int32_t lanes = std::max(builder_.type(c.mask).lanes, builder_.type(c.value).lanes);
    const DType t = builder_.type(c.value).dtype;
    const Reg identity = builder_.constant({t, lanes}, combiner_identity(combiner, t));
    p.back() = builder_.apply(ScalarOp::kSelect,
                              {to_lanes(c.mask, lanes), to_lanes(c.value, lanes), identity}, t);
  }
  while (p.size() > 1) {
    std::vector<Reg> half;
    for (size_t k = 0; k + 1 < p.size(); k += 2)
      half.push_back(combine_values(combiner, p[k], p[k + 1]));
    if (p.size() % 2 != 0) half.push_back(p.back());
    p = std::move(half);
  }
  return p[0];
}

/// Rule 2: contributions combined in the thread, over vector elements, lanes and warps.
std::vector<Reg> Lowering::reduce(const TileStatement& statement, int sweep, Combiner combiner,
                                  const Box& box, const ReducedBox& result,
                                  const std::vector<Contribution>& contributed) {
  const bool over_lanes = box.vec_axis >= 0 && result.box.vec_axis < 0;
  const auto parts = by_result(contributed, result);
  std::vector<Reg> values(parts.size(), kNoReg);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    Reg value = combine_contributions(combiner, parts[i]);
    if (over_lanes) value = builder_.reduce_lanes(combiner, to_lanes(value, box.lanes));
    values[i] = gpu_ ? reduce_over_lanes(box, statement, combiner, value) : value;
  }
  if (gpu_) reduce_over_warps(box, {&statement, sweep}, combiner, &values);
  return values;
}

void Lowering::write_reduced(const TileRef& target, const ReducedBox& result,
                             const std::vector<Reg>& values) {
  const DType type = program_.symbols[static_cast<size_t>(target.symbol)].type;
  begin_evaluation(result.box);
  const bool in_register = buffer_of_[static_cast<size_t>(target.symbol)] < 0;
  RegisterTile tile;
  PreparedIndex offset;
  if (in_register) {
    tile = make_tile(target, result.box);
  } else {
    offset = prepare(buffer_offset(target.symbol, target.indices, target.next));
  }
  for_each_point(result.box, [&](int64_t number, const Point& point) {
    Reg value = values[static_cast<size_t>(number)];
    if (value == kNoReg) return;
    if (builder_.type(value).dtype != type)
      value = builder_.apply(ScalarOp::kConvert, {value}, type);
    if (in_register) {
      tile.regs[static_cast<size_t>(number)] = to_lanes(value, result.box.lanes);
      return;
    }
    bool skip = false;
    const Reg mask = lane_mask_of(result.box, point, &skip);
    if (!skip) {
      store_element(target, offset, result.box, point, value, store_mask(mask, result.box));
    }
  });
  if (in_register) (target.next ? next_tiles_ : tiles_)[target.symbol] = std::move(tile);
}

/// How many elements a result combines.
Reg Lowering::reduced_count(const TileStatement& statement, const Box& box, DType type) {
  Reg count = builder_.int_constant(1);
  for (const Box::Axis& axis : box.axes) {
    if (!reduces(statement, axis.var)) continue;
    const auto& valid = valid_[static_cast<size_t>(axis.var)];
    const int64_t extent = program_.vars[static_cast<size_t>(axis.var)].extent;
    Reg own = builder_.int_constant(valid && valid->reg == kNoReg ? valid->count : extent);
    if (valid && valid->reg != kNoReg) {
      own = builder_.apply(ScalarOp::kMin, {valid->reg, own}, DType::kI64);
    }
    count = builder_.apply(ScalarOp::kMul, {count, own}, DType::kI64);
  }
  return builder_.apply(ScalarOp::kConvert, {count}, type);
}

/// Mean and biased variance of values that are at hand: their sum, then that of the squared
/// differences from the mean, which loses nothing where the mean is large.
void Lowering::emit_welford(const TileStatement& statement, const Box& box,
                            const ReducedBox& result, std::vector<Contribution> parts) {
  const DType type = builder_.type(parts.at(0).value).dtype;
  const Reg count = reduced_count(statement, box, type);
  const auto over_count = [&](std::vector<Reg> sums) {
    for (Reg& r : sums) {
      if (r == kNoReg) continue;
      r = builder_.apply(ScalarOp::kDiv, {r, to_lanes(count, builder_.type(r).lanes)}, type);
    }
    return sums;
  };
  const std::vector<Reg> mean =
      over_count(reduce(statement, 0, Combiner::kSum, box, result, parts));
  for (Contribution& c : parts) {
    const Reg m = mean[c.result];
    const int32_t lanes = std::max(builder_.type(c.value).lanes, builder_.type(m).lanes);
    const Reg d =
        builder_.apply(ScalarOp::kSub, {to_lanes(c.value, lanes), to_lanes(m, lanes)}, type);
    c.value = builder_.apply(ScalarOp::kMul, {d, d}, type);
  }
  const std::vector<Reg> variance =
      over_count(reduce(statement, 1, Combiner::kSum, box, result, parts));
  write_reduced(statement.targets[0], result, mean);
  write_reduced(statement.targets[1], result, variance);
}

/// The largest value and the first position that holds it; NaN is the largest.
void Lowering::emit_argmax(const TileStatement& statement, const Box& box, const ReducedBox& result,
                           std::vector<Contribution> parts) {
  const DType type = builder_.type(parts.at(0).value).dtype;
  const std::vector<Reg> best = reduce(statement, 0, Combiner::kMax, box, result, parts);
  const ScalarRef index = scalar_index(IndexExpr::var(statement.reduce_axes[0]));
  kept_.push_back(index);
  for (Contribution& c : parts) {
    const Reg position = evaluate(index, c.point, kNoReg);
    const int32_t lanes = std::max({builder_.type(c.value).lanes, builder_.type(position).lanes,
                                    builder_.type(best[c.result]).lanes});
    const Reg x = to_lanes(c.value, lanes), top = to_lanes(best[c.result], lanes);
    Reg same = builder_.apply(ScalarOp::kEq, {x, top}, DType::kBool);
    if (is_float(type)) {
      same = builder_.apply(
          ScalarOp::kOr, {same, builder_.apply(ScalarOp::kIsNan, {x}, DType::kBool)}, DType::kBool);
    }
    const Reg none =
        builder_.constant({DType::kI64, lanes}, combiner_identity(Combiner::kMin, DType::kI64));
    c.value =
        builder_.apply(ScalarOp::kSelect, {same, to_lanes(position, lanes), none}, DType::kI64);
  }
  const std::vector<Reg> position = reduce(statement, 1, Combiner::kMin, box, result, parts);
  write_reduced(statement.targets[0], result, best);
  write_reduced(statement.targets[1], result, position);
}

}  // namespace weft::lowering
