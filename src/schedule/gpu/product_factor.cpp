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

int64_t access_width(const TileProgram& program, const ScalarRef& value, TileVarId along,
                     int64_t most, int64_t borders,
                     const std::function<int64_t(TileVarId)>& unit_of) {
  int64_t width = most;
  visit(value, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead) return;
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(s.symbol)];
    Shape shape;
    for (const IndexExpr& e : symbol.shape) shape.push_back(e.constant());
    AffineForm form;
    const IndexExpr offset = element_offset(symbol.layout, shape, s.indices, ranges_of(program));
    if (!as_affine(offset, &form)) {
      width = 1;
      return;
    }
    int64_t common = std::gcd(form.constant, borders);
    const int64_t c = form.coefficient(along);
    for (const auto& [id, factor] : form.terms) {
      if (id != along) common = std::gcd(common, factor * unit_of(id));
    }
    if (c == 0 && !uses_var(offset, along)) return;
    if (c != 1) width = 1;
    while (common % width != 0) width /= 2;
  });
  return width;
}

}  // namespace weft
