#include "import/builder/matrix_factors.h"

#include <algorithm>

namespace weft::onnx {
namespace {

constexpr int64_t kScannedColumns = 32;

int64_t first_half(int64_t columns) { return (columns / 2 + 15) / 16 * 16; }

ValueId transposed(GraphBuilder& b, ValueId matrices) { return b.swap_axes(matrices, -1, -2); }

ValueId product(GraphBuilder& b, ValueId x, ValueId y) { return b.matmul(x, y, b.dtype(x)); }

ValueId rows(GraphBuilder& b, ValueId x, int64_t begin, int64_t end) {
  return b.slice_axis(x, 1, begin, end);
}
ValueId columns(GraphBuilder& b, ValueId x, int64_t begin, int64_t end) {
  return b.slice_axis(x, 2, begin, end);
}

/// What was stacked by steps, as the columns of each matrix: [K, batch, M] -> [batch, M, K].
ValueId stacked_columns(GraphBuilder& b, ValueId steps) { return b.transpose(steps, {1, 2, 0}); }

/// x [batch, M] as columns times y [batch, N] as rows.
ValueId outer_product(GraphBuilder& b, ValueId x, ValueId y) {
  return b.mul(b.unsqueeze(x, {2}), b.unsqueeze(y, {1}));
}

/// The body of a scan over columns: matrices that go from step to step, and the step's number.
struct ColumnStep {
  ColumnStep(GraphBuilder& around, ValueId matrices)
      : type(around.dtype(matrices)),
        batch(around.extent(matrices, 0)),
        height(around.extent(matrices, 1)),
        width(around.extent(matrices, 2)),
        b(&around) {
    matrix = b.input(around.type(matrices));
  }
  ValueId places(int64_t extent) { return b.iota(DType::kI64, {batch, extent}, 1); }
  ValueId is(ScalarOp comparison, ValueId place) { return b.binary(comparison, place, k); }
  ValueId column() { return b.gather(matrix, k, 2); }
  ValueId row() { return b.gather(matrix, k, 1); }
  /// Element k of [batch, M], for each of a row.
  ValueId at_step(ValueId values) { return b.unsqueeze(b.gather(values, k, 1), {1}); }
  ValueId number(double value) { return b.scalar(type, value); }
  /// A column for those of the matrix: `then` below row k of column k, `otherwise` elsewhere.
  ValueId below_in_column(ValueId then, ValueId otherwise) {
    const ValueId below = b.unsqueeze(is(ScalarOp::kGt, places(height)), {2});
    const ValueId here = b.unsqueeze(is(ScalarOp::kEq, places(width)), {1});
    return b.select(b.binary(ScalarOp::kAnd, below, here), b.unsqueeze(then, {2}), otherwise);
  }

  DType type;
  int64_t batch, height, width;
  GraphBuilder b;
  ValueId matrix = kNoValue, k = kNoValue;
};

ValueId step_numbers(GraphBuilder& b, int64_t count) { return b.iota(DType::kI64, {count}, 0); }

/// x as [batch, M, N]; the outer axes come back by `restored`.
class OneBatch {
 public:
  OneBatch(GraphBuilder& b, ValueId x) : b_(b) {
    require(b.rank(x) >= 2, "the input must hold matrices");
    outer_.assign(b.shape(x).begin(), b.shape(x).end() - 2);
    const auto count = element_count(outer_);
    require(count.has_value(), "the input is too large");
    batch_ = *count;
  }
  ValueId of(ValueId x) const {
    require(b_.rank(x) == static_cast<int64_t>(outer_.size()) + 2 &&
                std::equal(outer_.begin(), outer_.end(), b_.shape(x).begin()),
            "the inputs hold other numbers of matrices");
    return b_.reshape(x, {batch_, b_.extent(x, -2), b_.extent(x, -1)});
  }
  ValueId restored(ValueId x) const {
    Shape shape = outer_;
    shape.insert(shape.end(), b_.shape(x).begin() + 1, b_.shape(x).end());
    return b_.reshape(x, shape);
  }

 private:
  GraphBuilder& b_;
  Shape outer_;
  int64_t batch_ = 0;
};

void require_square(GraphBuilder& b, ValueId x) {
  require(b.rank(x) >= 2 && b.extent(x, -1) == b.extent(x, -2),
          "the input must hold square matrices");
}

/// Step k takes column k of what is left, divided by the root of its pivot.
ValueId cholesky_by_columns(GraphBuilder& b, ValueId a) {
  ColumnStep step(b, a);
  GraphBuilder& body = step.b;
  step.k = body.input({DType::kI64, {}});
  const ValueId column = step.column();
  const ValueId scaled = body.div(column, body.sqrt(step.at_step(column)));
  const ValueId in_lower = step.is(ScalarOp::kGe, step.places(step.height));
  const ValueId factor = body.select(in_lower, scaled, step.number(0));
  body.result(body.sub(step.matrix, outer_product(body, factor, factor)));
  body.result(factor);
  const ValueId steps = step_numbers(b, step.width);
  return stacked_columns(b, b.make_scan({a}, {steps}, body, {false}, {false})[1]);
}

ValueId solve_blocks(GraphBuilder& b, const TriangularMatrix& a, ValueId right);

ValueId cholesky_blocks(GraphBuilder& b, ValueId a) {
  const int64_t n = b.extent(a, 1);
  if (n <= kScannedColumns) return cholesky_by_columns(b, a);
  const int64_t half = first_half(n);
  const ValueId top = rows(b, a, 0, half), bottom = rows(b, a, half, n);
  const ValueId first = cholesky_blocks(b, columns(b, top, 0, half));
  const ValueId left = columns(b, bottom, 0, half);
  const ValueId below = transposed(b, solve_blocks(b, {first}, transposed(b, left)));
  const ValueId rest = b.sub(columns(b, bottom, half, n), product(b, below, transposed(b, below)));
  const ValueId second = cholesky_blocks(b, rest);
  const ValueId above = b.full(b.dtype(a), {b.extent(a, 0), half, n - half}, 0);
  return b.concat({b.concat({first, above}, 2), b.concat({below, second}, 2)}, 1);
}

/// Step k knows row k of X, and takes its part away from the other rows.
ValueId solve_by_rows(GraphBuilder& b, const TriangularMatrix& a, ValueId right) {
  ColumnStep step(b, right);
  GraphBuilder& body = step.b;
  const TensorType column_type{step.type, {step.batch, step.height}};
  const ValueId column = body.input(column_type);
  step.k = body.input({DType::kI64, {}});
  ValueId row = step.row();
  if (!a.unit_diagonal) row = body.div(row, step.at_step(column));
  body.result(body.sub(step.matrix, outer_product(body, column, row)));
  body.result(row);
  const ValueId by_columns = b.transpose(a.values, {2, 0, 1});
  const bool last_first = !a.lower;
  const std::vector<ValueId> results =
      b.make_scan({right}, {by_columns, step_numbers(b, step.height)}, body,
                  {last_first, last_first}, {last_first});
  return b.transpose(results[1], {1, 0, 2});
}

ValueId solve_blocks(GraphBuilder& b, const TriangularMatrix& a, ValueId right) {
  const int64_t n = b.extent(right, 1);
  if (n <= kScannedColumns) return solve_by_rows(b, a, right);
  const int64_t half = first_half(n);
  // The block that is solved first, and the other one.
  const int64_t first = a.lower ? 0 : half, first_end = a.lower ? half : n;
  const int64_t second = a.lower ? half : 0, second_end = a.lower ? n : half;
  const auto block = [&](int64_t row, int64_t row_end, int64_t column, int64_t column_end) {
    return columns(b, rows(b, a.values, row, row_end), column, column_end);
  };
  const auto part = [&](int64_t begin, int64_t end) {
    return TriangularMatrix{block(begin, end, begin, end), a.lower, a.unit_diagonal};
  };
  const ValueId x = solve_blocks(b, part(first, first_end), rows(b, right, first, first_end));
  const ValueId between = block(second, second_end, first, first_end);
  const ValueId rest = b.sub(rows(b, right, second, second_end), product(b, between, x));
  const ValueId y = solve_blocks(b, part(second, second_end), rest);
  return b.concat(a.lower ? std::vector{x, y} : std::vector{y, x}, 1);
}

/// Factors of a block of columns, and which row of it each row of the factors was.
struct PivotedColumns {
  LowerUpper of;
  ValueId origins = kNoValue;  ///< i64 [batch, M]
};

/// Step k brings the largest element of column k, of rows k and below, to row k, and clears the
/// column below it.
PivotedColumns eliminate_by_columns(GraphBuilder& b, ValueId a) {
  ColumnStep step(b, a);
  GraphBuilder& body = step.b;
  const int64_t height = step.height;
  const ValueId origins = body.input({DType::kI64, {step.batch, height}});
  step.k = body.input({DType::kI64, {}});
  const ValueId place = step.places(height);
  const ValueId size = body.unary(ScalarOp::kAbs, step.column());
  const ValueId open = body.select(step.is(ScalarOp::kGe, place), size, step.number(-1));
  const ValueId best = body.arg_reduce(Combiner::kArgMax, open, 1, true);
  const ValueId displaced = body.select(body.binary(ScalarOp::kEq, place, best), step.k, place);
  const ValueId source = body.select(step.is(ScalarOp::kEq, place), best, displaced);
  step.matrix = body.gather(step.matrix, source, 1, 1);
  const ValueId column = step.column(), pivot = step.at_step(column);
  const ValueId no_pivot = body.binary(ScalarOp::kEq, pivot, step.number(0));
  const ValueId divided = body.div(column, body.select(no_pivot, step.number(1), pivot));
  const ValueId factor = body.select(step.is(ScalarOp::kGt, place), divided, step.number(0));
  const ValueId right = step.is(ScalarOp::kGt, step.places(step.width));
  const ValueId row = body.select(right, step.row(), step.number(0));
  const ValueId rest = body.sub(step.matrix, outer_product(body, factor, row));
  body.result(step.below_in_column(divided, rest));
  body.result(body.gather(origins, source, 1, 1));
  body.result(body.squeeze(best, {1}));
  const ValueId places = b.iota(DType::kI64, {step.batch, height}, 1);
  const ValueId steps = step_numbers(b, std::min(height, step.width));
  const std::vector<ValueId> results = b.make_scan({a, places}, {steps}, body, {false}, {false});
  return {{results[0], b.transpose(results[2], {1, 0})}, results[1]};
}

PivotedColumns eliminate_blocks(GraphBuilder& b, ValueId a) {
  const int64_t m = b.extent(a, 1), n = b.extent(a, 2), steps = std::min(m, n);
  if (steps <= kScannedColumns) return eliminate_by_columns(b, a);
  const int64_t half = first_half(steps);
  const PivotedColumns left = eliminate_blocks(b, columns(b, a, 0, half));
  const ValueId right = b.gather(columns(b, a, half, n), left.origins, 1, 1);
  const ValueId top_left = rows(b, left.of.factors, 0, half);
  const ValueId top = solve_blocks(b, {top_left, true, true}, rows(b, right, 0, half));
  const ValueId below = rows(b, left.of.factors, half, m);
  const PivotedColumns rest =
      eliminate_blocks(b, b.sub(rows(b, right, half, m), product(b, below, top)));
  const auto exchanged = [&](ValueId x) { return b.gather(x, rest.origins, 1, 1); };
  const ValueId bottom = b.concat({exchanged(below), rest.of.factors}, 2);
  const ValueId later = b.add(rest.of.exchanges, b.scalar_int(DType::kI64, half));
  return {{b.concat({b.concat({top_left, top}, 2), bottom}, 1),
           b.concat({left.of.exchanges, later}, 1)},
          b.concat({rows(b, left.origins, 0, half), exchanged(rows(b, left.origins, half, m))}, 1)};
}

/// matrix - tau v (transposed(v) matrix)
ValueId reflected(GraphBuilder& b, ValueId matrix, ValueId v, ValueId tau) {
  const ValueId along = b.reduce(Combiner::kSum, b.mul(matrix, b.unsqueeze(v, {2})), {1}, false);
  return b.sub(matrix, outer_product(b, v, b.mul(along, tau)));
}

}  // namespace

ValueId cholesky(GraphBuilder& b, ValueId a) {
  require_square(b, a);
  const OneBatch batch(b, a);
  return batch.restored(cholesky_blocks(b, batch.of(a)));
}

ValueId solve_triangular(GraphBuilder& b, const TriangularMatrix& a, ValueId right) {
  require_square(b, a.values);
  const OneBatch batch(b, a.values);
  right = batch.of(right);
  require(b.extent(right, 1) == b.extent(a.values, -1),
          "the right sides have another number of rows than the matrices");
  TriangularMatrix all = a;
  all.values = batch.of(a.values);
  return batch.restored(solve_blocks(b, all, right));
}

LowerUpper lower_upper(GraphBuilder& b, ValueId a) {
  const OneBatch batch(b, a);
  const LowerUpper of = eliminate_blocks(b, batch.of(a)).of;
  return {batch.restored(of.factors), batch.restored(of.exchanges)};
}

/// LAPACK's geqrf: a column x becomes (beta, 0, …) with beta = -sign(x0) |x|, tau = (beta - x0) /
/// beta, v = x / (x0 - beta) behind its 1; where nothing is to clear, tau = 0.
Reflectors reflectors(GraphBuilder& b, ValueId a) {
  const OneBatch batch(b, a);
  const ValueId matrices = batch.of(a);
  ColumnStep step(b, matrices);
  GraphBuilder& body = step.b;
  step.k = body.input({DType::kI64, {}});
  const ValueId place = step.places(step.height);
  const ValueId column = step.column(), first = step.at_step(column), zero = step.number(0);
  const ValueId tail = body.select(step.is(ScalarOp::kGt, place), column, zero);
  const ValueId squares = body.reduce(Combiner::kSum, body.mul(tail, tail), {1}, true);
  const ValueId clear = body.binary(ScalarOp::kEq, squares, zero);
  const ValueId length = body.sqrt(body.add(body.mul(first, first), squares));
  const ValueId negative = body.binary(ScalarOp::kLt, first, zero);
  const ValueId away = body.select(negative, length, body.neg(length));
  const ValueId beta = body.select(clear, first, away), one = step.number(1);
  const ValueId tau = body.select(clear, zero, body.div(body.sub(beta, first), away));
  const ValueId head = body.select(clear, one, body.sub(first, beta));
  const ValueId below = body.div(tail, head);
  const ValueId v = body.select(step.is(ScalarOp::kEq, place), one, below);
  // Columns before this one hold earlier reflectors.
  const ValueId open = body.unsqueeze(step.is(ScalarOp::kGt, step.places(step.width)), {1});
  const ValueId rest = body.select(open, reflected(body, step.matrix, v, tau), step.matrix);
  const ValueId here = body.unsqueeze(step.is(ScalarOp::kEq, step.places(step.width)), {1});
  const ValueId diagonal = body.unsqueeze(step.is(ScalarOp::kEq, place), {2});
  const ValueId kept = step.below_in_column(below, rest);
  body.result(
      body.select(body.binary(ScalarOp::kAnd, here, diagonal), body.unsqueeze(beta, {2}), kept));
  body.result(body.squeeze(tau, {1}));
  const ValueId steps = step_numbers(b, std::min(step.height, step.width));
  const std::vector<ValueId> results = b.make_scan({matrices}, {steps}, body, {false}, {false});
  return {batch.restored(results[0]), batch.restored(b.transpose(results[1], {1, 0}))};
}

ValueId product_of_reflectors(GraphBuilder& b, const Reflectors& of) {
  const OneBatch batch(b, of.factors);
  const ValueId factors = batch.of(of.factors);
  const int64_t count = b.extent(of.tau, -1), height = b.extent(factors, 1);
  const int64_t width = b.extent(factors, 2);
  require(count <= std::min(height, width), "there are more reflectors than columns");
  const ValueId tau = b.reshape(of.tau, {b.extent(factors, 0), count});
  const ValueId row = b.iota(DType::kI64, {height, width}, 0);
  const ValueId column = b.iota(DType::kI64, {height, width}, 1);
  const ValueId unit = b.convert(b.binary(ScalarOp::kEq, row, column), b.dtype(factors));
  const ValueId start = b.broadcast_to(unit, b.shape(factors));
  ColumnStep step(b, start);
  GraphBuilder& body = step.b;
  const ValueId stored = body.input({step.type, {step.batch, height}});
  const ValueId scale = body.input({step.type, {step.batch}});
  step.k = body.input({DType::kI64, {}});
  const ValueId place = step.places(height);
  const ValueId below = body.select(step.is(ScalarOp::kGt, place), stored, step.number(0));
  const ValueId v = body.select(step.is(ScalarOp::kEq, place), step.number(1), below);
  body.result(reflected(body, step.matrix, v, body.unsqueeze(scale, {1})));
  const ValueId by_columns = b.transpose(columns(b, factors, 0, count), {2, 0, 1});
  return batch.restored(b.make_scan({start},
                                    {by_columns, b.transpose(tau, {1, 0}), step_numbers(b, count)},
                                    body, {true, true, true}, {})[0]);
}

}  // namespace weft::onnx
