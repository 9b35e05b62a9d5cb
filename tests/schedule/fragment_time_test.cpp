#include "schedule/stages/fragment_time.h"

#include <gtest/gtest.h>

#include "target/unit_peak.h"

namespace weft {
namespace {

Target h100() {
  Target out = *find_target("h100-sxm");
  out.launch_us = 0.98;
  out.cluster_barrier_us = 0.42;
  return out;
}

/// y = (x w) u in float16: rows, depth, shared axis, what is made.
FragmentProblem product(int64_t batch, std::vector<int64_t> extents) {
  FragmentProblem out;
  out.loops.batch = batch;
  out.loops.extents = std::move(extents);
  out.gflops = unit_gflops(DType::kF16, h100());
  out.multiplies = true;
  return out;
}

/// The same with a softmax between.
FragmentProblem attention(int64_t batch, std::vector<int64_t> extents) {
  FragmentProblem out = product(batch, std::move(extents));
  out.between = 19;
  out.reductions = 2;
  return out;
}

struct Measured {
  FragmentProblem problem;
  int64_t rows, step, made, splits;
  FragmentsChoice choice;
  double us;
};

/// On an H100, of inputs that lie in the second-level cache.
TEST(FragmentTime, IsNearWhatWasMeasured) {
  const FragmentsChoice block{}, registers{.left_in_block = false};
  const std::vector<Measured> cases = {
      {product(1, {512, 64, 256, 128}), 64, 64, 32, 4, registers, 4.1},
      {product(1, {512, 256, 512, 256}), 128, 64, 64, 8, block, 11.9},
      {product(1, {512, 512, 512, 256}),
       64,
       64,
       128,
       8,
       {.warps = 8, .left_in_block = false},
       20.7},
      {product(1, {512, 1024, 512, 256}), 32, 16, 256, 8, {.warps = 2}, 25.9},
      {product(1, {512, 128, 512, 128}), 128, 64, 32, 8, block, 6.0},
      {product(1, {2048, 128, 512, 128}), 128, 64, 64, 4, block, 11.2},
      {product(4, {1024, 128, 1024, 128}), 128, 32, 128, 4, block, 20.9},
      {product(8, {1024, 128, 1024, 128}), 128, 32, 128, 2, block, 18.1},
      {attention(8, {512, 64, 512, 64}), 64, 128, 64, 4, registers, 11.8},
      {attention(16, {512, 64, 512, 64}), 64, 128, 64, 1, registers, 10.3},
      {attention(16, {256, 64, 256, 64}), 64, 128, 32, 1, registers, 5.7},
      {attention(1, {1024, 64, 512, 64}), 64, 64, 64, 8, registers, 6.0},
  };
  for (const Measured& c : cases) {
    const FragmentTiles tiles{c.rows, c.step, c.made, c.splits, c.choice, {}};
    const auto us = fragment_us(c.problem, tiles, h100());
    ASSERT_TRUE(us.has_value());
    EXPECT_NEAR(*us / c.us, 1, 0.25) << c.us;
  }
}

/// An SM has room for one block; 15 clusters of 8 find their SMs, the 16th waits for them.
TEST(FragmentTime, CountsTheWavesOfClusters) {
  const auto of_rows = [](int64_t rows) {
    const FragmentTiles tiles{128, 64, 64, 8, {}, {}};
    return *fragment_us(product(1, {rows, 256, 512, 64}), tiles, h100());
  };
  EXPECT_NEAR(of_rows(1920), of_rows(1024), 0.5);
  EXPECT_GT(of_rows(2048), 1.5 * of_rows(1920));
}

}  // namespace
}  // namespace weft
