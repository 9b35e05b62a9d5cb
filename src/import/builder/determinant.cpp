#include "import/builder/determinant.h"

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

/// Step k brings the largest element of column k (of rows k and below) to row k, multiplies the
/// determinant by it (and by -1 for an exchange), and clears the column below it.
ValueId eliminate(GraphBuilder& b, ValueId x, int64_t size) {
  int64_t batch = b.extent(x, 0);
  DType type = b.dtype(x);
  GraphBuilder body(&b);
  ValueId matrix = body.input({type, {batch, size, size}});
  ValueId determinant = body.input({type, {batch}});
  ValueId k = body.input({DType::kI64, {}});
  ValueId row = body.iota(DType::kI64, {batch, size}, 1), zero = body.scalar(type, 0);
  ValueId column = body.gather(matrix, k, 2);
  ValueId open = body.binary(ScalarOp::kGe, row, k);
  ValueId size_of = body.select(open, body.unary(ScalarOp::kAbs, column), body.scalar(type, -1));
  ValueId best = body.arg_reduce(Combiner::kArgMax, size_of, 1, true);
  ValueId exchanged = body.select(body.binary(ScalarOp::kEq, row, k), best,
                                  body.select(body.binary(ScalarOp::kEq, row, best), k, row));
  matrix = body.gather(matrix, exchanged, 1, 1);
  column = body.gather(matrix, k, 2);
  ValueId pivot_row = body.gather(matrix, k, 1);
  ValueId pivot = body.gather(column, k, 1);
  ValueId below = body.binary(ScalarOp::kGt, row, k);
  ValueId is_zero = body.binary(ScalarOp::kEq, pivot, zero);
  ValueId factor =
      body.div(column, body.unsqueeze(body.select(is_zero, body.scalar(type, 1), pivot), {1}));
  factor = body.select(below, factor, zero);
  body.result(
      body.sub(matrix, body.mul(body.unsqueeze(factor, {2}), body.unsqueeze(pivot_row, {1}))));
  ValueId stays = body.binary(ScalarOp::kEq, body.squeeze(best, {1}), k);
  ValueId sign = body.select(stays, body.scalar(type, 1), body.scalar(type, -1));
  body.result(body.mul(determinant, body.mul(sign, pivot)));
  ValueId steps = b.iota(DType::kI64, {size}, 0);
  return b.make_scan({x, b.full(type, {batch}, 1)}, {steps}, body, {false}, {})[1];
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
