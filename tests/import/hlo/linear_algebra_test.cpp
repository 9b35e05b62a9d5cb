// Factors and solutions, multiplied out: matrices of one block of columns, and of several.

#include <fmt/format.h>

#include <random>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

/// Row by row.
struct Matrix {
  size_t rows, columns;
  std::vector<double> values;

  Matrix(size_t height, size_t width) : rows(height), columns(width), values(height * width) {}
  Matrix(size_t height, size_t width, std::vector<double> elements)
      : rows(height), columns(width), values(std::move(elements)) {}
  double& at(size_t i, size_t j) { return values[i * columns + j]; }
  double at(size_t i, size_t j) const { return values[i * columns + j]; }
  HostTensor tensor() const {
    return floats({static_cast<int64_t>(rows), static_cast<int64_t>(columns)}, values);
  }
};

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix product(a.rows, b.columns);
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t k = 0; k < a.columns; ++k) {
      for (size_t j = 0; j < b.columns; ++j) product.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return product;
}

Matrix transposed(const Matrix& a) {
  Matrix result(a.columns, a.rows);
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t j = 0; j < a.columns; ++j) result.at(j, i) = a.at(i, j);
  }
  return result;
}

/// The elements for which `keeps(row, column)`; 1 on the diagonal where `unit`.
template <typename Keeps>
Matrix masked(const Matrix& a, Keeps keeps, bool unit = false) {
  Matrix result(a.rows, a.columns);
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t j = 0; j < a.columns; ++j) {
      if (keeps(i, j)) result.at(i, j) = i == j && unit ? 1 : a.at(i, j);
    }
  }
  return result;
}

Matrix random_matrix(size_t rows, size_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  Matrix matrix(rows, columns);
  for (double& value : matrix.values) value = static_cast<double>(random() % 2001) / 1000 - 1;
  return matrix;
}

/// Symmetric and positive definite.
Matrix definite(size_t size) {
  const Matrix half = random_matrix(size, size, 7);
  Matrix matrix = times(half, transposed(half));
  for (size_t i = 0; i < size; ++i) matrix.at(i, i) += 1;
  return matrix;
}

void expect_near(const Matrix& actual, const Matrix& expected, double distance) {
  ASSERT_EQ(actual.values.size(), expected.values.size());
  for (size_t i = 0; i < actual.values.size(); ++i) {
    ASSERT_NEAR(actual.values[i], expected.values[i], distance) << "element " << i;
  }
}

constexpr auto kLower = [](size_t i, size_t j) { return i >= j; };
constexpr auto kUpper = [](size_t i, size_t j) { return i <= j; };

TEST(Cholesky, FactorTimesItsTransposeIsTheMatrix) {
  for (const size_t n : {1, 5, 33, 70}) {
    const Matrix a = definite(n);
    const auto factor = [&](bool lower) {
      const std::string text = module_of(fmt::format(
          "  x = f32[{0},{0}] parameter(0)\n  ROOT r = f32[{0},{0}] cholesky(x), lower={1}", n,
          lower));
      // Only one triangle is read.
      const Matrix half = lower ? masked(a, kLower) : masked(a, kUpper);
      return Matrix(n, n, run(text, {half.tensor()}));
    };
    const Matrix lower = factor(true), upper = factor(false);
    expect_near(lower, masked(lower, kLower), 0);
    expect_near(times(lower, transposed(lower)), a, 1e-4);
    expect_near(times(transposed(upper), upper), a, 1e-4);
  }
}

TEST(Cholesky, IsNanFromTheFirstBadColumnOn) {
  const std::string text =
      module_of("  x = f32[3,3] parameter(0)\n  ROOT r = f32[3,3] cholesky(x), lower=true");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_values(run(text, {floats({3, 3}, {4, 0, 0, 2, -1, 0, 2, 0, 9})}),
                {2, 0, 0, 1, nan, 0, 1, nan, nan});
}

TEST(TriangularSolve, SolvesFromEitherSide) {
  constexpr size_t kSize = 45;
  Matrix a = random_matrix(kSize, kSize, 3);
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t j = 0; j < kSize; ++j) a.at(i, j) = i == j ? 2 : a.at(i, j) / 8;
  }
  for (int options = 0; options < 16; ++options) {
    SCOPED_TRACE(options);
    const bool left = (options & 1) != 0, lower = (options & 2) != 0, unit = (options & 4) != 0,
               transpose = (options & 8) != 0;
    const Matrix b = left ? random_matrix(kSize, 3, 5) : random_matrix(3, kSize, 5);
    const std::string text = module_of(fmt::format(
        R"(  a = f32[45,45] parameter(0)
  b = f32[{0}] parameter(1)
  ROOT r = f32[{0}] triangular-solve(a, b), left_side={1}, lower={2}, unit_diagonal={3}, transpose_a={4})",
        left ? "45,3" : "3,45", left, lower, unit, transpose ? "TRANSPOSE" : "NO_TRANSPOSE"));
    const Matrix x(b.rows, b.columns, run(text, {a.tensor(), b.tensor()}));
    Matrix read = lower ? masked(a, kLower, unit) : masked(a, kUpper, unit);
    if (transpose) read = transposed(read);
    expect_near(left ? times(read, x) : times(x, read), b, 1e-4);
  }
}

std::string call_of(std::string_view shapes, std::string_view operands, std::string_view target,
                    std::string_view config = "{}") {
  return module_of(
      fmt::format("{}\n  ROOT r = {} custom-call({}), custom_call_target=\"{}\", backend_config={}",
                  shapes.substr(0, shapes.find('|')), shapes.substr(shapes.find('|') + 1), operands,
                  target, config));
}

TEST(LinearAlgebraCalls, CholeskySaysWhichPivotIsBad) {
  const std::string text = call_of("  x = f32[2,2,2] parameter(0)|(f32[2,2,2], s32[2])", "x",
                                   "lapack_spotrf_ffi", "{uplo = 76 : ui8}");
  const auto values = run_all(text, {floats({2, 2, 2}, {4, 7, 2, 5, 1, 8, 1, 0.5})});
  ASSERT_EQ(values.size(), 2U);
  // The upper triangle stays.
  expect_values({values[0].begin(), values[0].begin() + 4}, {2, 7, 1, 2});
  expect_values(values[1], {0, 2});
}

TEST(LinearAlgebraCalls, FactorsExchangeRows) {
  for (const auto& [m, n] : {std::pair<size_t, size_t>{4, 4}, {40, 70}, {70, 50}}) {
    const Matrix a = random_matrix(m, n, 11);
    const size_t steps = std::min(m, n);
    const std::string shapes =
        fmt::format("  x = f32[{0},{1}] parameter(0)|(f32[{0},{1}], s32[{2}], s32[])", m, n, steps);
    const auto values = run_all(call_of(shapes, "x", "lapack_sgetrf_ffi"), {a.tensor()});
    ASSERT_EQ(values.size(), 3U);
    const Matrix factors(m, n, values[0]);
    Matrix lower(m, steps), upper(steps, n), exchanged = a;
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        if (j < steps && i >= j) lower.at(i, j) = i == j ? 1 : factors.at(i, j);
        if (i < steps && i <= j) upper.at(i, j) = factors.at(i, j);
      }
    }
    for (size_t k = 0; k < steps; ++k) {
      const auto other = static_cast<size_t>(values[1][k]) - 1;
      for (size_t j = 0; j < n; ++j) std::swap(exchanged.at(k, j), exchanged.at(other, j));
    }
    expect_near(times(lower, upper), exchanged, 1e-4);
    for (const double factor : lower.values) EXPECT_LE(std::abs(factor), 1);
    expect_values(values[2], {0});
  }
}

TEST(LinearAlgebraCalls, FactorsWithoutAPivotGoOn) {
  const std::string text =
      call_of("  x = f32[2,2] parameter(0)|(f32[2,2], s32[2], s32[])", "x", "lapack_sgetrf_ffi");
  const auto values = run_all(text, {floats({2, 2}, {0, 1, 0, 2})});
  ASSERT_EQ(values.size(), 3U);
  expect_values(values[0], {0, 1, 0, 2});
  expect_values(values[2], {1});
}

TEST(LinearAlgebraCalls, ReflectorsMakeOrthogonalColumns) {
  for (const auto& [m, n] : {std::pair<size_t, size_t>{5, 5}, {9, 4}, {4, 9}}) {
    Matrix a = random_matrix(m, n, 13);
    for (size_t i = 1; i < m; ++i) a.at(i, 1) = 0;  // nothing to clear, once
    const size_t k = std::min(m, n);
    const auto packed = run_all(
        call_of(fmt::format("  x = f32[{0},{1}] parameter(0)|(f32[{0},{1}], f32[{2}])", m, n, k),
                "x", "Qr"),
        {a.tensor()});
    ASSERT_EQ(packed.size(), 2U);
    const Matrix factors(m, n, packed[0]);
    Matrix left(m, k);
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < k; ++j) left.at(i, j) = factors.at(i, j);
    }
    const std::string product = call_of(
        fmt::format("  x = f32[{0},{1}] parameter(0)\n  t = f32[{1}] parameter(1)|f32[{0},{1}]", m,
                    k),
        "x, t", "lapack_sorgqr_ffi");
    const Matrix q(m, k,
                   run(product, {left.tensor(), floats({static_cast<int64_t>(k)}, packed[1])}));
    Matrix unit(k, k), r(k, n);
    for (size_t i = 0; i < k; ++i) {
      unit.at(i, i) = 1;
      for (size_t j = i; j < n; ++j) r.at(i, j) = factors.at(i, j);
    }
    expect_near(times(transposed(q), q), unit, 1e-5);
    expect_near(times(q, r), a, 1e-5);
  }
}

TEST(LinearAlgebra, ErrorsSayWhatDoesNotFit) {
  const auto error = [](std::string_view shape, std::string_view rest, ErrorCode code) {
    return import_error(
        module_of(fmt::format("  x = {0} parameter(0)\n  ROOT r = {0} {1}", shape, rest)), code);
  };
  const auto invalid = ErrorCode::kInvalidInput, unsupported = ErrorCode::kUnsupported;
  EXPECT_THAT(error("f32[2,3]", "cholesky(x)", invalid), HasSubstr("square matrices"));
  EXPECT_THAT(error("f32[3]", "cholesky(x)", invalid), HasSubstr("matrices of floats"));
  EXPECT_THAT(error("s32[3,3]", "cholesky(x)", invalid), HasSubstr("matrices of floats"));
  EXPECT_THAT(error("c64[3,3]", "cholesky(x)", unsupported), HasSubstr("complex numbers"));
  EXPECT_THAT(error("c64[3,3]", "custom-call(x), custom_call_target=\"Qr\"", unsupported),
              HasSubstr("complex numbers in 'Qr'"));
  EXPECT_THAT(error("f32[2,2,2]",
                    "custom-call(x, x), custom_call_target=\"lapack_strsm_ffi\", backend_config={}",
                    invalid),
              HasSubstr("has no side"));
  EXPECT_THAT(import_error(module_of(R"(  x = f32[2,3,3] parameter(0)
  b = f32[4,3,1] parameter(1)
  ROOT r = f32[4,3,1] triangular-solve(x, b), left_side=true, lower=true)")),
              HasSubstr("other numbers of matrices"));
  EXPECT_THAT(error("f32[40000,40000]", "cholesky(x)", invalid), HasSubstr("too many"));
}

}  // namespace
}  // namespace weft::hlo
