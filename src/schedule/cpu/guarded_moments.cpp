#include <algorithm>

#include "schedule/cpu/stitch_builder.h"
#include "schedule/writer/statements.h"

namespace weft {

namespace {

/// Σ (x - μ)² = Σ x² - n μ² is taken while n μ² is at most so many times as large: the difference
/// then has lost two of its binary digits at most, and rows of other means are swept again.
constexpr double kMostOfMean = 4;

ScalarRef times(const ScalarRef& a, const ScalarRef& b) {
  return scalar_apply(ScalarOp::kMul, {a, b}, a->type);
}
ScalarRef times(const ScalarRef& a, double b) {
  return times(a, scalar_constant(float_value(a->type, b)));
}

}  // namespace

/// The second moments whose sweep makes nothing else. Their sums' sweeps add up Σ x², too, which
/// costs a multiplication where the values are at hand; the sweep in between is left out.
void Stitch::find_moments() {
  std::map<int, CentralMoment> by_second;
  for (const CentralMoment& m : central_moments(space_.program(), space_.group(), axes_)) {
    by_second[m.second] = m;
  }
  for (int level = 1; level < axes_.levels && !chunked_; ++level) {
    const std::set<int> needed = needed_in(level);
    const auto is_made_for_moments = [&](int p) {
      if (!reduces(p)) return !is_output(p) && !kept_[static_cast<size_t>(p)];
      const auto pair = by_second.find(p);
      return pair != by_second.end() && by_second.count(pair->second.sum) == 0;
    };
    if (!std::all_of(needed.begin(), needed.end(), is_made_for_moments)) continue;
    for (const int p : needed) {
      if (reduces(p)) moments_.push_back(by_second.at(p));
    }
  }
}

bool Stitch::is_guarded(int level) const {
  return std::any_of(moments_.begin(), moments_.end(), [&](const CentralMoment& m) {
    return axes_.level[static_cast<size_t>(m.second)] == level;
  });
}

bool Stitch::is_second_moment(int p) const {
  return std::ranges::find(moments_, p, &CentralMoment::second) != moments_.end();
}

/// Second moments from Σ x and Σ x². Where a row of the tile has a mean that is large beside its
/// deviation (or is no number), the sweep is made after all:
///
///     M[i] = Q[i] - S[i]*μ[i]                                       with μ[i] = S[i]/n
///     near[] = and[i] S[i]*μ[i] <= 4*M[i]
///     seq once in 1 carry E[i] = 0 {
///       if !near { … E'[i] = what the sweep gives }
///     }
///     V[i] = near ? M[i] : E[i]
void Stitch::emit_guarded_sweep(int level, const std::set<int>& needed, TileBody* body) {
  TileLoop once;
  once.kind = TileLoop::Kind::kSeq;
  once.dims.push_back(b_.once());
  ScalarRef near;
  std::vector<int> members;
  std::vector<ScalarRef> quick;
  for (const CentralMoment& m : moments_) {
    const int p = m.second;
    if (axes_.level[static_cast<size_t>(p)] != level) continue;
    const DType type = b_.expr(p).accumulator;
    const std::vector<IndexExpr> row = coordinates(p);
    double terms = 1;
    for (const int64_t extent : b_.expr(p).reduce_extents) terms *= static_cast<double>(extent);
    const auto add = [&](const char* suffix, ScalarRef value) {
      const TileSymbolId symbol = add_value(p, suffix, type);
      body->push_back(TileNode::of(assign(symbol, row, std::move(value), place(p))));
      return scalar_read(symbol, type, row);
    };
    const ScalarRef sum = read_local(m.sum);
    const ScalarRef of_mean = add("_s", times(sum, times(sum, 1 / terms)));
    const ScalarRef moment = add(
        "_m",
        scalar_apply(ScalarOp::kSub, {scalar_read(squares_.at(m.sum), type, row), of_mean}, type));
    const TileSymbolId is_near = add_value(p, "_n", DType::kBool);
    TileStatement all = assign(
        is_near, {},
        scalar_apply(ScalarOp::kLe, {of_mean, times(moment, kMostOfMean)}, DType::kBool), place(p));
    for (const Place::Axis& axis : place(p).axes) all.reduce_axes.push_back(axis.var);
    if (!all.reduce_axes.empty()) all.combiner = TileCombiner::kAnd;
    body->push_back(TileNode::of(std::move(all)));
    const ScalarRef read = scalar_read(is_near, DType::kBool, {});
    near = near ? scalar_apply(ScalarOp::kAnd, {near, read}, DType::kBool) : read;

    members.push_back(p);
    quick.push_back(moment);
    once.carries.push_back(carried(add_value(p, "_e", type, TileSymbol::Kind::kCarry), row,
                                   scalar_constant(combiner_identity(Combiner::kSum, type)),
                                   place(p)));
  }
  TileCondition far;
  far.condition = scalar_apply(ScalarOp::kNot, {near}, DType::kBool);
  emit_sweep(level, needed, &far.body);
  for (size_t i = 0; i < members.size(); ++i) {
    const TileRef& exact = once.carries[i].target;
    far.body.push_back(TileNode::of(
        assign_next(exact.symbol, exact.indices, read_local(members[i]), place(members[i]))));
  }
  const std::vector<TileCarry> carries = once.carries;
  once.body.push_back(TileNode::of(std::move(far)));
  body->push_back(TileNode::of(std::move(once)));
  for (size_t i = 0; i < members.size(); ++i) {
    const int p = members[i];
    const TileCarry& carry = carries[i];
    const ScalarRef exact = scalar_read(carry.target.symbol, carry.type, carry.target.indices);
    scalars_[p] = add_value(p, "_v", carry.type);
    body->push_back(TileNode::of(
        assign(scalars_[p], carry.target.indices,
               scalar_apply(ScalarOp::kSelect, {near, quick[i], exact}, carry.type), place(p))));
    if (is_output(p)) body->push_back(TileNode::of(b_.store(p, read_local(p), place(p))));
  }
}

}  // namespace weft
