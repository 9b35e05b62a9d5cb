#include "lower/core/reductions.h"

#include <algorithm>
#include <cstdint>

#include "lower/core/buffers.h"
#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"
#include "lower/core/rolled_boxes.h"
#include "lower/core/statements.h"
#include "support/rounding.h"

namespace weft::lowering {

namespace {

struct ReducedBox {
  Box box;
  std::vector<int> kept;  ///< axes of the domain's box
};

/// What one point of the domain adds to result element `result`.
struct Contribution {
  size_t result = 0;
  Point point;
  Reg mask = kNoReg;
  Reg value = kNoReg;
};

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

ReducedBox reduced_box(const TileStatement& statement, const Box& box) {
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

/// The result that a point of the domain contributes to.
size_t result_of(const Box& box, const ReducedBox& result, const Point& point) {
  size_t number = 0;
  for (const int a : result.kept) {
    number = number * static_cast<size_t>(box.axes[static_cast<size_t>(a)].regs) +
             static_cast<size_t>(point[static_cast<size_t>(a)]);
  }
  return number;
}

/// To results from `first` up to `end`.
std::vector<Contribution> contributions(KernelWriter& w, const TileStatement& statement,
                                        const Box& box, const ReducedBox& result, size_t first = 0,
                                        size_t end = SIZE_MAX) {
  std::vector<Contribution> parts;
  for_each_point(box, [&](int64_t, const Point& point) {
    const size_t number = result_of(box, result, point);
    if (number < first || number >= end) return;
    bool skip = false;
    const Reg mask = lane_mask_of(w, box, point, &skip);
    if (skip) return;
    parts.push_back({number, point, mask, evaluate(w, statement.value, point, mask)});
  });
  return parts;
}

std::vector<std::vector<Contribution>> by_result(const std::vector<Contribution>& contributed,
                                                 const ReducedBox& result) {
  std::vector<std::vector<Contribution>> out(static_cast<size_t>(result.box.points()));
  for (const Contribution& c : contributed) out[c.result].push_back(c);
  return out;
}

bool reads_memory(const KernelWriter& w, const ScalarRef& value) {
  bool reads = false;
  visit(value, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kRead) return;
    const auto symbol = static_cast<TileSymbolId>(n.symbol);
    reads |= w.memory.buffer_of[static_cast<size_t>(symbol)] >= 0 &&
             w.registers.tiles.count(symbol) == 0;
  });
  return reads;
}

/// Results whose contributions a GPU's thread makes together. As many loads are on their way at
/// once as hide what they take; more contributions than this would take registers that the
/// estimate of the program (tile/check/fits) knows nothing of. Where nothing is loaded the
/// assembler orders them.
size_t results_at_once(const KernelWriter& w, const TileStatement& statement, const Box& box,
                       const ReducedBox& result) {
  constexpr int64_t kMostRegisters = 32;
  const int64_t results = std::max<int64_t>(result.box.points(), 1);
  if (w.program.cpu || !reads_memory(w, statement.value)) return static_cast<size_t>(results);
  const int64_t registers = ceil_div(box.lanes * byte_size(statement.value->type), 4);
  const int64_t of_result = box.points() / results * registers;
  return static_cast<size_t>(std::clamp<int64_t>(kMostRegisters / of_result, 1, results));
}

/// Calls each(result, its contributions) for all results, in their order.
template <class Each>
void for_each_result(KernelWriter& w, const TileStatement& statement, const Box& box,
                     const ReducedBox& result, const Each& each) {
  const auto results = static_cast<size_t>(result.box.points());
  const size_t step = results_at_once(w, statement, box, result);
  for (size_t first = 0; first < results; first += step) {
    const size_t end = std::min(first + step, results);
    const auto parts = by_result(contributions(w, statement, box, result, first, end), result);
    for (size_t i = first; i < end; ++i) each(i, parts[i]);
  }
}

/// Of one result: pairwise, neighbours first.
Reg combine_contributions(KernelWriter& w, Combiner combiner,
                          const std::vector<Contribution>& parts) {
  std::vector<Reg> p;
  for (const Contribution& c : parts) {
    p.push_back(c.value);
    if (c.mask == kNoReg) continue;
    const int32_t lanes = std::max(w.builder.type(c.mask).lanes, w.builder.type(c.value).lanes);
    const DType t = w.builder.type(c.value).dtype;
    const Reg identity = w.builder.constant({t, lanes}, combiner_identity(combiner, t));
    p.back() = w.builder.apply(
        ScalarOp::kSelect, {to_lanes(w, c.mask, lanes), to_lanes(w, c.value, lanes), identity}, t);
  }
  while (p.size() > 1) {
    std::vector<Reg> half;
    for (size_t k = 0; k + 1 < p.size(); k += 2)
      half.push_back(combine_values(w, combiner, p[k], p[k + 1]));
    if (p.size() % 2 != 0) half.push_back(p.back());
    p = std::move(half);
  }
  return p[0];
}

/// Digits of reduced axes that would be too many to write out are loops with the results as
/// carries; what each thread has made is its one contribution to a result.
std::vector<Contribution> reduce_in_loops(KernelWriter& w, const TileStatement& statement,
                                          Combiner combiner, const std::vector<RolledDigit>& rolled,
                                          Box box, const ReducedBox& result) {
  const int32_t lanes = box.lanes;
  const Reg identity = w.builder.constant({statement.value->type, lanes},
                                          combiner_identity(combiner, statement.value->type));
  const std::vector<Reg> first(static_cast<size_t>(result.box.points()), identity);
  const std::vector<Reg> sums = emit_rolled(
      w, rolled, 0, std::move(box), first, [&](const Box& b, const std::vector<Reg>& before) {
        std::vector<Reg> after = before;
        const auto add = [&](size_t i, const std::vector<Contribution>& parts) {
          if (parts.empty()) return;
          const Reg own = combine_contributions(w, combiner, parts);
          after[i] = combine_values(w, combiner, before[i], to_lanes(w, own, lanes));
        };
        for_each_result(w, statement, b, result, add);
        return after;
      });
  std::vector<Contribution> out;
  for (size_t i = 0; i < sums.size(); ++i) out.push_back({i, {}, kNoReg, sums[i]});
  return out;
}

/// Rule 2: what contributes to one result, combined in the thread, over vector elements and lanes.
Reg reduce_one(KernelWriter& w, const TileStatement& statement, Combiner combiner, const Box& box,
               const ReducedBox& result, const std::vector<Contribution>& parts) {
  if (parts.empty()) return kNoReg;
  const bool over_lanes = box.vec_axis >= 0 && result.box.vec_axis < 0;
  Reg value = combine_contributions(w, combiner, parts);
  if (over_lanes) value = w.builder.reduce_lanes(combiner, to_lanes(w, value, box.lanes));
  return w.reduce_over_lanes(box, statement, combiner, value);
}

/// Of all results, and over warps.
std::vector<Reg> reduce(KernelWriter& w, const TileStatement& statement, int sweep,
                        Combiner combiner, const Box& box, const ReducedBox& result,
                        const std::vector<Contribution>& contributed) {
  std::vector<Reg> values;
  for (const std::vector<Contribution>& parts : by_result(contributed, result))
    values.push_back(reduce_one(w, statement, combiner, box, result, parts));
  w.reduce_over_warps(box, statement, sweep, combiner, &values);
  return values;
}

/// The same of contributions that are not made yet.
std::vector<Reg> make_and_reduce(KernelWriter& w, const TileStatement& statement, Combiner combiner,
                                 const Box& box, const ReducedBox& result) {
  std::vector<Reg> values(static_cast<size_t>(result.box.points()), kNoReg);
  for_each_result(w, statement, box, result, [&](size_t i, const std::vector<Contribution>& parts) {
    values[i] = reduce_one(w, statement, combiner, box, result, parts);
  });
  w.reduce_over_warps(box, statement, 0, combiner, &values);
  return values;
}

void write_reduced(KernelWriter& w, const TileRef& target, const ReducedBox& result,
                   const std::vector<Reg>& values) {
  const DType type = w.program.symbols[static_cast<size_t>(target.symbol)].type;
  begin_evaluation(w, result.box);
  const bool in_register = w.memory.buffer_of[static_cast<size_t>(target.symbol)] < 0;
  RegisterTile tile;
  PreparedIndex offset;
  if (in_register) {
    tile = make_tile(w, target, result.box);
  } else {
    offset = prepare(w, buffer_offset(w, target.symbol, target.indices, target.next));
  }
  for_each_point(result.box, [&](int64_t number, const Point& point) {
    Reg value = values[static_cast<size_t>(number)];
    if (value == kNoReg) return;
    if (w.builder.type(value).dtype != type)
      value = w.builder.apply(ScalarOp::kConvert, {value}, type);
    if (in_register) {
      tile.regs[static_cast<size_t>(number)] = to_lanes(w, value, result.box.lanes);
      return;
    }
    bool skip = false;
    const Reg mask = lane_mask_of(w, result.box, point, &skip);
    if (!skip) {
      store_element(w, target, offset, result.box, point, value, store_mask(w, mask, result.box));
    }
  });
  if (in_register)
    (target.next ? w.registers.next : w.registers.tiles)[target.symbol] = std::move(tile);
}

/// How many elements a result combines.
Reg reduced_count(KernelWriter& w, const TileStatement& statement, const Box& box, DType type) {
  Reg count = w.builder.int_constant(1);
  for (const Box::Axis& axis : box.axes) {
    if (!reduces(statement, axis.var)) continue;
    const auto& valid = w.bindings.valid[static_cast<size_t>(axis.var)];
    const int64_t extent = w.program.vars[static_cast<size_t>(axis.var)].extent;
    Reg own = w.builder.int_constant(valid && valid->reg == kNoReg ? valid->count : extent);
    if (valid && valid->reg != kNoReg) {
      own = w.builder.apply(ScalarOp::kMin, {valid->reg, own}, DType::kI64);
    }
    count = w.builder.apply(ScalarOp::kMul, {count, own}, DType::kI64);
  }
  return w.builder.apply(ScalarOp::kConvert, {count}, type);
}

/// Mean and biased variance of values that are at hand: their sum, then that of the squared
/// differences from the mean, which loses nothing where the mean is large.
void emit_welford(KernelWriter& w, const TileStatement& statement, const Box& box,
                  const ReducedBox& result, std::vector<Contribution> parts) {
  const DType type = w.builder.type(parts.at(0).value).dtype;
  const Reg count = reduced_count(w, statement, box, type);
  const auto over_count = [&](std::vector<Reg> sums) {
    for (Reg& r : sums) {
      if (r == kNoReg) continue;
      r = w.builder.apply(ScalarOp::kDiv, {r, to_lanes(w, count, w.builder.type(r).lanes)}, type);
    }
    return sums;
  };
  const std::vector<Reg> mean =
      over_count(reduce(w, statement, 0, Combiner::kSum, box, result, parts));
  for (Contribution& c : parts) {
    const Reg m = mean[c.result];
    const int32_t lanes = std::max(w.builder.type(c.value).lanes, w.builder.type(m).lanes);
    const Reg d =
        w.builder.apply(ScalarOp::kSub, {to_lanes(w, c.value, lanes), to_lanes(w, m, lanes)}, type);
    c.value = w.builder.apply(ScalarOp::kMul, {d, d}, type);
  }
  const std::vector<Reg> variance =
      over_count(reduce(w, statement, 1, Combiner::kSum, box, result, parts));
  write_reduced(w, statement.targets[0], result, mean);
  write_reduced(w, statement.targets[1], result, variance);
}

/// The largest value and the first position that holds it; NaN is the largest.
void emit_argmax(KernelWriter& w, const TileStatement& statement, const Box& box,
                 const ReducedBox& result, std::vector<Contribution> parts) {
  const DType type = w.builder.type(parts.at(0).value).dtype;
  const std::vector<Reg> best = reduce(w, statement, 0, Combiner::kMax, box, result, parts);
  const ScalarRef index = scalar_index(IndexExpr::var(statement.reduce_axes[0]));
  w.at_hand.kept.push_back(index);
  for (Contribution& c : parts) {
    const Reg position = evaluate(w, index, c.point, kNoReg);
    const int32_t lanes = std::max({w.builder.type(c.value).lanes, w.builder.type(position).lanes,
                                    w.builder.type(best[c.result]).lanes});
    const Reg x = to_lanes(w, c.value, lanes), top = to_lanes(w, best[c.result], lanes);
    Reg same = w.builder.apply(ScalarOp::kEq, {x, top}, DType::kBool);
    if (is_float(type)) {
      same = w.builder.apply(ScalarOp::kOr,
                             {same, w.builder.apply(ScalarOp::kIsNan, {x}, DType::kBool)},
                             DType::kBool);
    }
    const Reg none =
        w.builder.constant({DType::kI64, lanes}, combiner_identity(Combiner::kMin, DType::kI64));
    c.value =
        w.builder.apply(ScalarOp::kSelect, {same, to_lanes(w, position, lanes), none}, DType::kI64);
  }
  const std::vector<Reg> position = reduce(w, statement, 1, Combiner::kMin, box, result, parts);
  write_reduced(w, statement.targets[0], result, best);
  write_reduced(w, statement.targets[1], result, position);
}

}  // namespace

void emit_reduction(KernelWriter& w, const TileStatement& statement, const Box& box) {
  const ReducedBox result = reduced_box(statement, box);
  switch (statement.combiner) {
    case TileCombiner::kWelford:
      return emit_welford(w, statement, box, result, contributions(w, statement, box, result));
    case TileCombiner::kArgMax:
      return emit_argmax(w, statement, box, result, contributions(w, statement, box, result));
    default:
      break;
  }
  const Combiner combiner = scalar_combiner(statement.combiner);
  Box inner = box;
  const std::vector<RolledDigit> rolled = w.roll(statement, true, &inner);
  if (rolled.empty()) {
    return write_reduced(w, statement.targets[0], result,
                         make_and_reduce(w, statement, combiner, box, result));
  }
  const std::vector<Contribution> parts =
      reduce_in_loops(w, statement, combiner, rolled, std::move(inner), result);
  write_reduced(w, statement.targets[0], result,
                reduce(w, statement, 0, combiner, box, result, parts));
}

}  // namespace weft::lowering
