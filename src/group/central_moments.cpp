#include "group/central_moments.h"

#include <algorithm>
#include <optional>

namespace weft {

namespace {

class MomentFinder {
 public:
  MomentFinder(const TensorProgram& program, const Group& group, const GroupAxes& axes)
      : program_(program), group_(group), axes_(axes), written_out_(group.exprs.size()) {}

  std::vector<CentralMoment> run() {
    std::vector<CentralMoment> out;
    for (const int second : axes_.reductions) {
      if (!is_float_sum(second) || axes_.level[at(second)] == 0) continue;
      const ScalarRef difference = squared(write_out(second));
      if (!difference || difference->kind != Scalar::Kind::kApply ||
          difference->op != ScalarOp::kSub)
        continue;
      for (const size_t side : {0, 1}) {
        const int sum = sum_of_mean(difference->operands[1 - side]);
        if (sum < 0 || !same_axes(sum, second)) continue;
        if (!equal(write_out(sum), difference->operands[side])) continue;
        if (expr(sum).accumulator != expr(second).accumulator) continue;
        out.push_back({sum, second});
        break;
      }
    }
    return out;
  }

 private:
  static size_t at(int position) { return static_cast<size_t>(position); }
  const TensorExpr& expr(int p) const { return program_.exprs[at(group_.exprs[at(p)])]; }
  DType type(int p) const { return program_.tensors[at(expr(p).output)].type.dtype; }

  /// A sum in float32 or float64 of terms of that type, into a tensor of that type.
  bool is_float_sum(int p) const {
    const TensorExpr& e = expr(p);
    if (e.reduce_extents.empty() || e.combiner != Combiner::kSum) return false;
    const DType t = e.accumulator;
    return (t == DType::kF32 || t == DType::kF64) && e.body->type == t && type(p) == t;
  }

  bool same_axes(int p, int q) const {
    const auto reduced = [&](int r) {
      std::vector<int> own = axes_.axis_of[at(r)];
      own.erase(own.begin(), own.begin() + expr(r).output_rank());
      std::sort(own.begin(), own.end());
      return own;
    };
    return reduced(p) == reduced(q);
  }

  /// The body of a member over common axes, with the bodies of the element-wise members that it
  /// reads in their place; results of reductions are reads without indices.
  const ScalarRef& write_out(int p) {
    ScalarRef& out = written_out_[at(p)];
    if (out) return out;
    const std::vector<int>& own = axes_.axis_of[at(p)];
    out = rewrite(
        expr(p).body,
        [&](int var) -> IndexExpr {
          if (var >= kRuntimeIndexBase) return IndexExpr::var(var);
          const int axis = own[at(var)];
          return axes_.axes[at(axis)].extent == 1 ? IndexExpr(0) : IndexExpr::var(axis);
        },
        [&](const ScalarRef& read) -> ScalarRef {
          const int producer = axes_.producer(read->symbol);
          if (producer < 0) return read;
          return expr(producer).reduce_extents.empty() ? write_out(producer)
                                                       : scalar_read(read->symbol, read->type, {});
        });
    return out;
  }

  /// d where `s` is d·d or d²; null where it is neither.
  static ScalarRef squared(const ScalarRef& s) {
    if (s->kind != Scalar::Kind::kApply || s->operands.size() != 2) return nullptr;
    const ScalarRef &a = s->operands[0], &b = s->operands[1];
    if (s->op == ScalarOp::kMul && equal(a, b)) return a;
    if (s->op == ScalarOp::kPow && is_number(b, 2)) return a;
    return nullptr;
  }

  static bool is_number(const ScalarRef& s, double number) {
    return s->kind == Scalar::Kind::kConstant && is_float(s->type) &&
           equal(s, scalar_constant(float_value(s->type, number)));
  }

  /// Position of the sum whose mean `s` is, -1 where it is none.
  int sum_of_mean(const ScalarRef& s) const {
    if (s->kind != Scalar::Kind::kApply || s->operands.size() != 2) return -1;
    for (const size_t side : {0, 1}) {
      const ScalarRef &read = s->operands[side], &factor = s->operands[1 - side];
      if (read->kind != Scalar::Kind::kRead) continue;
      const int p = axes_.producer(read->symbol);
      if (p < 0 || !is_float_sum(p)) continue;
      double terms = 1;
      for (const int64_t extent : expr(p).reduce_extents) terms *= static_cast<double>(extent);
      if (s->op == ScalarOp::kDiv && side == 0 && is_number(factor, terms)) return p;
      if (s->op == ScalarOp::kMul && is_number(factor, 1 / terms)) return p;
    }
    return -1;
  }

  const TensorProgram& program_;
  const Group& group_;
  const GroupAxes& axes_;
  std::vector<ScalarRef> written_out_;
};

}  // namespace

std::vector<CentralMoment> central_moments(const TensorProgram& program, const Group& group,
                                           const GroupAxes& axes) {
  if (axes.reductions.size() < 2) return {};
  return MomentFinder(program, group, axes).run();
}

void join_sweeps(const TensorProgram& program, const Group& group,
                 const std::vector<CentralMoment>& moments, GroupAxes* axes) {
  axes->levels = 1;
  for (size_t p = 0; p < group.exprs.size(); ++p) {
    const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs[p])];
    int& level = axes->level[p];
    level = 0;
    visit(e.body, [&](const Scalar& s) {
      const int producer = s.kind == Scalar::Kind::kRead ? axes->producer(s.symbol) : -1;
      if (producer < 0) return;
      const bool reduces =
          !program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(producer)])]
               .reduce_extents.empty();
      level = std::max(level, axes->level[static_cast<size_t>(producer)] + (reduces ? 1 : 0));
    });
    for (const CentralMoment& m : moments) {
      if (m.second == static_cast<int>(p)) level = axes->level[static_cast<size_t>(m.sum)];
    }
    axes->levels = std::max(axes->levels, level + 1);
  }
}

}  // namespace weft
