#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "driver/compiler.h"
#include "driver/session.h"

namespace weft {
namespace {

// Tiles of four rows (of two on two threads), and one row at the end; values repeat every 7 rows.
constexpr int64_t kRows = 37, kColumns = 203;

/// (x - μ) rsqrt(v + 1e-5), or v itself, with μ and v the mean and the variance of a row.
std::string normalised(bool variance_too) {
  return std::string(R"((x: f32[37,203]) {
  n = constant 203 : f32[]
  nb = broadcast n, dims={} : f32[37]
  s = reduce x, axes={1}, combiner=sum : f32[37]
  mu = div s, nb : f32[37]
  mub = broadcast mu, dims={0} : f32[37,203]
  d = sub x, mub : f32[37,203]
  sq = mul d, d : f32[37,203]
  v = reduce sq, axes={1}, combiner=sum : f32[37]
  va = div v, nb : f32[37]
  eps = constant 1e-05 : f32[]
  epsb = broadcast eps, dims={} : f32[37]
  ve = add va, epsb : f32[37]
  r = rsqrt ve : f32[37]
  rb = broadcast r, dims={0} : f32[37,203]
  y = mul d, rb : f32[37,203]
} -> (y)") +
         (variance_too ? ", v)" : ")");
}

HostTensor filled(const std::function<double(int64_t row, int64_t column)>& f) {
  HostTensor x(DType::kF32, {kRows, kColumns});
  for (int64_t i = 0; i < x.size(); ++i) x.set_double(i, f(i / kColumns % 7, i % kColumns));
  return x;
}

std::unique_ptr<Compilation> compiled_of(const std::string& text, int threads) {
  CompileOptions options;
  options.threads = threads;
  options.verify = true;
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok());
  auto compiled = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  EXPECT_EQ((*compiled)->plan.kernels.size(), 1U);
  return std::move(*compiled);
}

std::vector<HostTensor> run_all(const HostTensor& x, int threads, bool variance_too) {
  auto compiled = compiled_of(normalised(variance_too), threads);
  auto session = Session::create(std::move(compiled->program), threads);
  EXPECT_TRUE(session.ok());
  auto outputs = (*session)->run({x});
  EXPECT_TRUE(outputs.ok());
  return std::move(*outputs);
}

HostTensor run(const HostTensor& x, int threads) { return run_all(x, threads, false)[0]; }

/// Loops over the elements of rows, without those inside of a guard.
int walks(const TileBody& body) {
  int n = 0;
  for (const TileNode& node : body) {
    if (node.kind != TileNode::Kind::kLoop) continue;
    const bool is_grid = node.loop->kind == TileLoop::Kind::kGrid;
    n += is_grid || node.loop->dims[0].step == 1 ? walks(node.loop->body) : 1;
  }
  return n;
}

/// In float64, except that the mean is a float32 as it is in every order of the sums.
void expect_normalised(const HostTensor& x, const HostTensor& y, double tolerance) {
  for (int64_t row = 0; row < kRows; ++row) {
    double sum = 0, moment = 0;
    for (int64_t c = 0; c < kColumns; ++c) sum += x.at_double(row * kColumns + c);
    const double mean = sum / kColumns;
    for (int64_t c = 0; c < kColumns; ++c)
      moment += std::pow(x.at_double(row * kColumns + c) - mean, 2);
    const double scale = 1 / std::sqrt(moment / kColumns + 1e-5);
    // The mean's own rounding shifts every element of its row.
    const double shift = std::abs(mean) * 0x1p-22 * scale;
    for (int64_t c = 0; c < kColumns; ++c) {
      const double expected = (x.at_double(row * kColumns + c) - mean) * scale;
      EXPECT_NEAR(y.at_double(row * kColumns + c), expected,
                  tolerance * (1 + std::abs(expected)) + shift)
          << "row " << row << ", column " << c;
    }
  }
}

double noise(int64_t row, int64_t column) {
  return static_cast<double>((row * 131 + column * 379) % 1009) / 504.5 - 1;
}

TEST(GuardedMoments, OfRowsAroundZero) {
  const HostTensor x = filled(noise);
  for (const int threads : {1, 2}) expect_normalised(x, run(x, threads), 4e-6);
}

TEST(GuardedMoments, OfRowsWithALargeMean) {
  const HostTensor x = filled(
      [](int64_t r, int64_t c) { return 300.0 * static_cast<double>(r * r + 1) + noise(r, c); });
  expect_normalised(x, run(x, 1), 1e-5);
}

TEST(GuardedMoments, OfNearAndFarRowsInOneTile) {
  const HostTensor x = filled([](int64_t r, int64_t c) {
    return noise(r, c) + (r % 2 == 0 ? 0 : std::pow(10.0, static_cast<double>(r)));
  });
  expect_normalised(x, run(x, 1), 1e-5);
}

/// Where the mean is as large as the bound on it allows.
TEST(GuardedMoments, OfMeansAroundTheBound) {
  const HostTensor x =
      filled([](int64_t r, int64_t c) { return noise(r, c) + 0.5773 * (3.7 + 0.1 * double(r)); });
  expect_normalised(x, run(x, 1), 2e-5);
}

TEST(GuardedMoments, OfConstantRows) {
  const HostTensor x = filled([](int64_t r, int64_t) { return 0.1 * double(r) - 0.2; });
  expect_normalised(x, run(x, 1), 1e-5);
}

TEST(GuardedMoments, OfRowsThatAreNoNumbers) {
  const double inf = std::numeric_limits<double>::infinity();
  const HostTensor x = filled([&](int64_t r, int64_t c) {
    if (r == 1 && c == 7) return inf;
    if (r == 4 && c == 200) return std::nan("");
    if (r == 5) return 3e19 * (1 + noise(r, c));  // squares overflow, too, about the mean
    return noise(r, c);
  });
  const HostTensor y = run(x, 1);
  for (int64_t c = 0; c < kColumns; ++c) {
    EXPECT_TRUE(std::isnan(y.at_double(1 * kColumns + c)));
    EXPECT_TRUE(std::isnan(y.at_double(4 * kColumns + c)));
    EXPECT_EQ(y.at_double(5 * kColumns + c), 0) << "divided by an infinite deviation";
    EXPECT_TRUE(std::isfinite(y.at_double(2 * kColumns + c)));
  }
}

/// Squares of elements overflow, those of what is left without the mean do not.
TEST(GuardedMoments, OfRowsWhoseSquaresOverflow) {
  const HostTensor x = filled([](int64_t r, int64_t c) { return 4e19 + 1e18 * noise(r, c); });
  expect_normalised(x, run(x, 1), 1e-5);
}

/// The moment itself is stored behind its guard, of near and of far rows.
TEST(GuardedMoments, AreOutputs) {
  for (const double far : {0.0, 300.0}) {
    const HostTensor x =
        filled([&](int64_t r, int64_t c) { return noise(r, c) + far * double(r % 2); });
    const std::vector<HostTensor> y = run_all(x, 1, true);
    expect_normalised(x, y[0], 1e-5);
    for (int64_t row = 0; row < kRows; ++row) {
      double sum = 0, moment = 0;
      for (int64_t c = 0; c < kColumns; ++c) sum += x.at_double(row * kColumns + c);
      for (int64_t c = 0; c < kColumns; ++c)
        moment += std::pow(x.at_double(row * kColumns + c) - sum / kColumns, 2);
      EXPECT_NEAR(y[1].at_double(row), moment, 1e-4 * moment) << row;
    }
  }
}

/// Both algebraic forms of the variance walk a row once for the sums, and once for what follows.
TEST(GuardedMoments, TakeOneWalkOfARow) {
  std::string squares = normalised(false);
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = squares.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    squares.replace(at, from.size(), to);
  };
  replace("sq = mul d, d", "sq = mul x, x");
  replace("va = div v, nb : f32[37]",
          "vq = div v, nb : f32[37]\n  m2 = mul mu, mu : f32[37]\n"
          "  va = sub vq, m2 : f32[37]");
  for (const std::string& text : {normalised(false), normalised(true), squares}) {
    const auto compiled = compiled_of(text, 1);
    EXPECT_EQ(walks(compiled->plan.kernels[0].schedule.program.body), 2) << text;
  }
}

}  // namespace
}  // namespace weft
