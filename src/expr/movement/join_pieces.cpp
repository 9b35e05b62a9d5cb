#include "expr/movement/join_pieces.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "expr/movement/read_composer.h"

namespace weft {

namespace {

/// One of the two that is chosen, and what is known where it is.
struct Piece {
  ScalarRef value;
  KnownRanges known;
};

bool is_plain_read(const Scalar& s) {
  return s.kind == Scalar::Kind::kRead && !s.fill && s.operands.empty();
}

/// Whether two indices lie `length` apart. Where the axis of a piece has one element its index is a
/// number, which the other one would be there.
bool are_apart(const IndexExpr& a, const KnownRanges& where_a, const IndexExpr& b, int64_t length) {
  const IndexExpr between = a - b;
  if (between.is_const()) return std::abs(between.constant()) == length;
  if (!a.is_const()) return false;
  const Interval there = where_a.bounds(b);
  return there.lo == there.hi && std::abs(a.constant() - there.lo) == length;
}

/// The one read that stands for a choice between two; null.
ScalarRef one_read(const Piece& a, const Piece& b, const TensorProgram& program) {
  const Scalar &x = *a.value, &y = *b.value;
  if (!is_plain_read(x) || !is_plain_read(y) || x.symbol != y.symbol || x.type != y.type)
    return nullptr;
  const Shape& shape = program.tensors[static_cast<size_t>(x.symbol)].type.shape;
  std::vector<IndexExpr> indices = x.indices;
  int axis = -1;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (x.indices[d] == y.indices[d]) continue;
    const bool apart = are_apart(x.indices[d], a.known, y.indices[d], shape[d]) ||
                       are_apart(y.indices[d], b.known, x.indices[d], shape[d]);
    if (axis >= 0 || !apart) return nullptr;
    axis = static_cast<int>(d);
    indices[d] = mod(x.indices[d].is_const() ? y.indices[d] : x.indices[d], shape[d]);
  }
  return axis < 0 ? nullptr : scalar_read(x.symbol, x.type, std::move(indices));
}

ScalarRef joined(const ScalarRef& s, const KnownRanges& known, const TensorProgram& program) {
  if (s->kind != Scalar::Kind::kApply || s->op != ScalarOp::kSelect) return s;
  const auto piece = [&](size_t operand) {
    KnownRanges inside = known;
    inside.assume(s->operands[0], operand == 1);
    ScalarRef value = joined(s->operands[operand], inside, program);
    return Piece{std::move(value), std::move(inside)};
  };
  const Piece then = piece(1), otherwise = piece(2);
  if (ScalarRef read = one_read(then, otherwise, program)) return read;
  if (then.value == s->operands[1] && otherwise.value == s->operands[2]) return s;
  return scalar_apply(ScalarOp::kSelect, {s->operands[0], then.value, otherwise.value}, s->type);
}

}  // namespace

ScalarRef join_pieces(const TensorExpr& expr, const TensorProgram& program) {
  std::vector<Interval> ranges;
  for (int v = 0; v < expr.axis_count(); ++v) ranges.push_back(expr.range(v));
  return joined(expr.body, KnownRanges(std::move(ranges)), program);
}

}  // namespace weft
