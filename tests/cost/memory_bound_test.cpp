#include "cost/memory_bound.h"

#include <gtest/gtest.h>

#include "tests/schedule/expressed.h"

namespace weft {
namespace {

/// 2 T_M T_N K / (2 T_M T_N + T_M K + T_N K), an element of two bytes.
TEST(MemoryBound, IntensityIsThatOfTiles) {
  EXPECT_DOUBLE_EQ(tile_flops_per_byte(512, 512, 64, 2),
                   2.0 * 128 * 128 * 64 / ((2 * 128 * 128 + 2 * 128 * 64) * 2.0));
  // Tiles are no larger than the matrix.
  EXPECT_DOUBLE_EQ(tile_flops_per_byte(16, 32, 8, 4),
                   2.0 * 16 * 32 * 8 / ((2 * 16 * 32 + 16 * 8 + 32 * 8) * 4.0));
  // Deep ones come near the limit 2 T_M T_N / (T_M + T_N).
  EXPECT_NEAR(tile_flops_per_byte(4096, 4096, 1 << 24, 1), 128, 0.01);
}

/// 100 GFLOP/s, 1000 on units for float16, 10 GB/s.
TEST(MemoryBound, ComparesWithWhatTheTargetDoesMeanwhile) {
  Target t;
  t.kind = Target::Kind::kGpu;
  t.peak_gflops = 100;
  t.peak_f16_gflops = 1000;
  t.bandwidth = {{1000, 10}};
  const auto of = [&](const std::string& type, int64_t k) {
    const std::string depth = std::to_string(k);
    const TensorProgram p =
        expressed("(x: " + type + "[512," + depth + "], w: " + type + "[" + depth +
                  ",256]) {\n  y = dot_general x, w, lhs_contract={1}, "
                  "rhs_contract={0} : " +
                  type + "[512,256]\n} -> (y)");
    return tile_intensity(p, p.exprs.back(), t);
  };
  ASSERT_TRUE(of("f16", 64));
  EXPECT_DOUBLE_EQ(of("f16", 64)->flops_per_byte, tile_flops_per_byte(512, 256, 64, 2));
  EXPECT_DOUBLE_EQ(of("f16", 64)->ridge, 100);
  EXPECT_TRUE(of("f16", 64)->memory_bound());
  EXPECT_DOUBLE_EQ(of("f32", 1024)->ridge, 10);
  EXPECT_FALSE(of("f32", 1024)->memory_bound());  // 28 operations a byte
}

TEST(MemoryBound, IsAskedOfProductsAlone) {
  const TensorProgram p = expressed("(x: f32[8,4]) {\n  y = exp x : f32[8,4]\n} -> (y)");
  EXPECT_FALSE(tile_intensity(p, p.exprs[0], *find_target("a100-40gb")));
}

}  // namespace
}  // namespace weft
