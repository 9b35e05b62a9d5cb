#include "lower/gpu/rolled_boxes.h"

#include <algorithm>
#include <functional>

#include "lower/core/expressions.h"
#include "lower/core/lanes.h"

namespace weft::lowering {

namespace {

/// Elements of a box that are written one by one; beyond, its digits become loops.
constexpr int64_t kMostUnrolled = 128;
/// Iterations that a loop leaves side by side, so that their loads overlap.
constexpr int64_t kSideBySide = 16;
/// Elements of one operand that a thread may hold across such a loop.
constexpr int64_t kMostHoisted = 64;

/// The largest divisor of `extent` up to `most`.
int64_t divisor_up_to(int64_t extent, int64_t most) {
  for (int64_t d = std::min(extent, most); d > 1; --d) {
    if (extent % d == 0) return d;
  }
  return 1;
}

/// Registers have no dynamic index: a digit may become a loop where neither what is read along it
/// nor what is made lies in registers.
bool may_roll(const GpuWriter& w, const TileStatement& statement, TileVarId var) {
  bool may = true;
  const auto along = [&](const std::vector<IndexExpr>& indices) {
    return std::any_of(indices.begin(), indices.end(),
                       [&](const IndexExpr& e) { return uses_var(e, var); });
  };
  for (const TileRef& t : statement.targets) {
    may &= w.memory.buffer_of[static_cast<size_t>(t.symbol)] >= 0 || !along(t.indices);
  }
  visit(statement.value, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kRead) return;
    may &= w.memory.buffer_of[static_cast<size_t>(n.symbol)] >= 0 || !along(n.indices);
  });
  return may;
}

}  // namespace

std::vector<RolledDigit> roll(const GpuWriter& w, const TileStatement& statement, bool reduced,
                              Box* box) {
  std::vector<RolledDigit> out;
  for (size_t a = 0; a < box->axes.size(); ++a) {
    Box::Axis& axis = box->axes[a];
    const bool is_reduced = std::find(statement.reduce_axes.begin(), statement.reduce_axes.end(),
                                      axis.var) != statement.reduce_axes.end();
    if (is_reduced != reduced || !may_roll(w, statement, axis.var)) continue;
    for (Box::RegDigit& digit : axis.digits) {
      const int64_t elements = box->points() * box->lanes;
      if (elements <= kMostUnrolled) return out;
      const int64_t others = elements / digit.extent;
      const int64_t kept =
          divisor_up_to(digit.extent, std::min(kSideBySide, kMostUnrolled / others));
      if (kept == digit.extent) continue;
      out.push_back({a, digit.extent / kept, digit.divisor * kept});
      axis.regs = axis.regs / digit.extent * kept;
      digit.extent = kept;
    }
  }
  return out;
}

void hoist_loads(GpuWriter& w, const TileStatement& statement, const Box& box,
                 const std::vector<RolledDigit>& rolled) {
  Box inner = box;
  std::vector<RolledDigit> all = roll(w, statement, true, &inner);
  all.insert(all.end(), rolled.begin(), rolled.end());
  begin_evaluation(w, box);
  const std::function<void(const ScalarRef&)> visit_reads = [&](const ScalarRef& s) {
    if (s->kind == Scalar::Kind::kApply && s->op == ScalarOp::kSelect) return;  // may not happen
    for (const ScalarRef& o : s->operands) visit_reads(o);
    const bool loads =
        s->kind == Scalar::Kind::kRead && !s->fill && s->operands.empty() &&
        w.program.symbols[static_cast<size_t>(s->symbol)].kind == TileSymbol::Kind::kInput;
    if (!loads) return;
    const uint64_t axes = box_mask(w, s);
    int64_t elements = box.lanes;
    for (size_t a = 0; a < box.axes.size(); ++a) {
      if ((axes >> a & 1) != 0) elements *= box.axes[a].regs;
    }
    const bool changes = std::any_of(
        all.begin(), all.end(), [&](const RolledDigit& d) { return (axes >> d.axis & 1) != 0; });
    if (changes || elements > kMostHoisted) return;
    for_each_point(box, [&](int64_t, const Point& point) {
      const auto key = std::pair(s.get(), project(point, axes));
      if (w.at_hand.hoisted.count(key) != 0) return;
      bool skip = false;
      const Reg mask = lane_mask_along(w, box, point, axes, &skip);
      if (!skip) w.at_hand.hoisted[key] = evaluate(w, s, point, mask);
    });
  };
  visit_reads(statement.value);
}

}  // namespace weft::lowering
