#include "import/builder/determinant.h"

#include "import/builder/matrix_factors.h"

namespace weft::onnx {
namespace {

ValueId element(GraphBuilder& b, ValueId matrices, int64_t row, int64_t column) {
  return b.pick(b.pick(matrices, 1, row), 1, column);
}

/// a(0,i) a(1,j) - a(0,j) a(1,i) with the rows counted from `row`.
ValueId minor2(GraphBuilder& b, ValueId x, int64_t row, int64_t i, int64_t j) {
  return b.sub(b.mul(element(b, x, row, i), element(b, x, row + 1, j)),
               b.mul(element(b, x, row, j), element(b, x, row + 1, i)));
}

ValueId closed_form(GraphBuilder& b, ValueId x, int64_t size) {
  if (size == 0) return b.full(b.dtype(x), {b.extent(x, 0)}, 1);
  if (size == 1) return element(b, x, 0, 0);
  if (size == 2) return minor2(b, x, 0, 0, 1);
  ValueId first = b.mul(element(b, x, 0, 0), minor2(b, x, 1, 1, 2));
  ValueId second = b.mul(element(b, x, 0, 1), minor2(b, x, 1, 0, 2));
  ValueId third = b.mul(element(b, x, 0, 2), minor2(b, x, 1, 0, 1));
  return b.add(b.sub(first, second), third);
}

/// The product of the pivots, negative for each exchange of rows.
ValueId eliminate(GraphBuilder& b, ValueId x, int64_t size) {
  const int64_t batch = b.extent(x, 0);
  const DType type = b.dtype(x);
  const LowerUpper of = lower_upper(b, x);
  const ValueId in_one = b.reshape(of.factors, {batch, size * size});
  const ValueId pivots = b.slice(in_one, {0, 0}, {1, size + 1}, {batch, size});
  const ValueId steps = b.iota(DType::kI64, {batch, size}, 1);
  const ValueId stays = b.binary(ScalarOp::kEq, of.exchanges, steps);
  const ValueId sign = b.select(stays, b.scalar(type, 1), b.scalar(type, -1));
  return b.reduce(Combiner::kProd, b.mul(pivots, sign), {1}, false);
}

}  // namespace

ValueId determinant(GraphBuilder& b, ValueId x) {
  require(b.rank(x) >= 2 && b.extent(x, -1) == b.extent(x, -2),
          "the input must hold square matrices");
  int64_t size = b.extent(x, -1);
  Shape outer(b.shape(x).begin(), b.shape(x).end() - 2);
  auto batch = element_count(outer);
  require(batch.has_value(), "the input is too large");
  x = b.reshape(x, {*batch, size, size});
  ValueId y = size <= 3 ? closed_form(b, x, size) : eliminate(b, x, size);
  return b.reshape(y, outer);
}

}  // namespace weft::onnx
