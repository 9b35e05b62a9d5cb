#include "schedule/gpu/product_factor.h"

#include <algorithm>
#include <numeric>

#include "expr/layout.h"
#include "schedule/writer/tile_builder.h"

namespace weft {

namespace {

/// The narrowest float type that holds every value of the tree, in which it is a conversion of
/// something or a choice (a pad's) between such and zero; else its own.
DType narrowest_type(const ScalarRef& s) {
  if (s->kind != Scalar::Kind::kApply) return s->type;
  if (s->op == ScalarOp::kConvert && is_float(s->type) && is_float(s->operands[0]->type) &&
      byte_size(s->operands[0]->type) < byte_size(s->type)) {
    return narrowest_type(s->operands[0]);
  }
  if (s->op != ScalarOp::kSelect) return s->type;
  for (const size_t kept : {1, 2}) {
    const ScalarRef& other = s->operands[3 - kept];
    if (other->kind == Scalar::Kind::kConstant && other->value.f == 0) {
      return narrowest_type(s->operands[kept]);
    }
  }
  return s->type;
}

/// What an index does over elements that lie behind each other along a variable, which begin at a
/// multiple of their number.
struct Run {
  int64_t step = 0;  ///< from one element to the next: none, one, or -1: anything
  int64_t unit = 0;  ///< of what the first is a multiple; 0: of everything
};

class Runs {
 public:
  Runs(TileVarId along, int64_t width, const std::function<int64_t(TileVarId)>& unit_of)
      : along_(along), width_(width), unit_of_(unit_of) {}

  Run of(const IndexExpr& e) const {
    if (e.is_const()) return {0, e.constant()};
    if (e.is_var()) {
      if (e.var_id() == along_) return {1, width_};
      return {0, e.var_id() < kRuntimeIndexBase ? unit_of_(e.var_id()) : 1};
    }
    const Run left = of(e.lhs()), right = of(e.rhs());
    switch (e.op()) {
      case IndexOp::kAdd:
        return {sum_of_steps(left, right), std::gcd(left.unit, right.unit)};
      case IndexOp::kMul:
        return {left.step == 0 && right.step == 0 ? 0 : -1, left.unit * right.unit};
      case IndexOp::kFloorDiv:
        return quotient(left, e.rhs().constant());
      case IndexOp::kMod:
        return {stays_below(left, e.rhs().constant()) || left.step == 0 ? left.step : -1,
                std::gcd(left.unit, e.rhs().constant())};
      default:
        return {left.step == 0 && right.step == 0 ? 0 : -1, std::gcd(left.unit, right.unit)};
    }
  }

 private:
  static int64_t sum_of_steps(const Run& a, const Run& b) {
    const bool any = a.step < 0 || b.step < 0 || a.step + b.step > 1;
    return any ? -1 : a.step + b.step;
  }
  /// Whether no multiple of `n` lies between two of the elements.
  bool stays_below(const Run& run, int64_t n) const {
    return run.step == 1 && n % width_ == 0 && run.unit % width_ == 0;
  }
  Run quotient(const Run& run, int64_t n) const {
    const int64_t unit = run.unit % n == 0 ? run.unit / n : 1;
    return {run.step == 0 || stays_below(run, n) ? 0 : -1, unit};
  }

  TileVarId along_;
  int64_t width_;
  const std::function<int64_t(TileVarId)>& unit_of_;
};

}  // namespace

ScalarRef in_narrowest_type(const ScalarRef& s) {
  const DType type = narrowest_type(s);
  if (type == s->type) return s;
  if (s->op == ScalarOp::kConvert) return in_narrowest_type(s->operands[0]);
  const auto branch = [&](const ScalarRef& b) {
    return b->kind == Scalar::Kind::kConstant ? scalar_constant(float_value(type, 0))
                                              : in_narrowest_type(b);
  };
  return scalar_apply(ScalarOp::kSelect,
                      {s->operands[0], branch(s->operands[1]), branch(s->operands[2])}, type);
}

namespace {

/// Calls `f` with each read's offset in memory.
template <typename F>
void visit_offsets(const TileProgram& program, const ScalarRef& value, const F& f) {
  visit(value, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(s.symbol)];
    Shape shape;
    for (const IndexExpr& e : symbol.shape) shape.push_back(e.constant());
    f(element_offset(symbol.layout, shape, s.indices, ranges_of(program)));
  });
}

}  // namespace

bool lies_together(const TileProgram& program, const ScalarRef& value, TileVarId along) {
  bool together = true;
  visit_offsets(program, value, [&](const IndexExpr& offset) {
    AffineForm form;
    if (uses_var(offset, along))
      together &= as_affine(offset, &form) && form.coefficient(along) == 1;
  });
  return together;
}

int64_t access_width(const TileProgram& program, const ScalarRef& value, TileVarId along,
                     int64_t most, int64_t borders,
                     const std::function<int64_t(TileVarId)>& unit_of) {
  int64_t width = most;
  visit_offsets(program, value, [&](const IndexExpr& offset) {
    const auto holds = [&] {
      const Run run = Runs(along, width, unit_of).of(offset);
      return run.step == 0 || (run.step == 1 && std::gcd(run.unit, borders) % width == 0);
    };
    while (width > 1 && !holds()) width /= 2;
  });
  return width;
}

}  // namespace weft
