#include "tile/rewrite/keep_loads.h"
#include "tile/check/verify_tile_program.h"
#include "tile/text/tile_text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

/// The program after the pass; it must verify.
std::string kept(const std::string& text, size_t first, bool changes = true, int64_t cluster = 1) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  if (!program.ok()) return "";
  EXPECT_EQ(keep_loads(*program, first, cluster), changes);
  const Status status = verify_tile_program(*program);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return print(*program);
}

std::string normalised(const std::string& text) {
  const auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? print(*program) : "";
}

std::string scaled(const std::string& load, const std::string& weight, const std::string& place) {
  return R"(kernel k(x: f32[1000,100], w: f32[100], out y: f32[1000,100]) blocks 2 warps 4 gpu {
  j: 100;
  grid i in 1000 step 4 {
)" + load +
         "    y[i,j] = x[i,j] * " + weight + " @[" + place + "];\n  }\n}\n";
}

TEST(KeepLoads, InBlockMemoryWhereWarpsHoldTheSame) {
  const std::string rows = "i=WARP_4, j=LANE_32-VEC_4";
  EXPECT_EQ(kept(scaled("", "w[j]", rows), 0),
            normalised(
                scaled("    w_v[j] = w[j] at block @[j=WARP_4-LANE_32-VEC_4];\n", "w_v[j]", rows)));
}

TEST(KeepLoads, OnceForSeveralReads) {
  const std::string rows = "i=WARP_4, j=LANE_32-VEC_4";
  EXPECT_EQ(kept(scaled("", "w[j] * w[j]", rows), 0),
            normalised(scaled("    w_v[j] = w[j] at block @[j=WARP_4-LANE_32-VEC_4];\n",
                              "w_v[j] * w_v[j]", rows)));
}

TEST(KeepLoads, InRegistersWhereWarpsDiffer) {
  const std::string across = "i=REG_4, j=WARP_4-LANE_32";
  EXPECT_EQ(kept(scaled("", "w[j]", across), 0),
            normalised(scaled("    w_v[j] = w[j] @[j=WARP_4-LANE_32];\n", "w_v[j]", across)));
}

/// What depends on a dimension of the grid is each block's own.
TEST(KeepLoads, InPartsByTheBlocksOfACluster) {
  const std::string across = "i=REG_4, j=WARP_4-LANE_32";
  EXPECT_EQ(kept(scaled("", "w[j]", across), 0, true, 2),
            normalised(scaled("    seq c in 100 step 64 by cluster {\n"
                              "      w_v_c[c] = w[c] @[c=WARP_2-WARP_2-LANE_32];\n    }\n"
                              "    w_v[j] = w_v_c[j] @[j=WARP_4-LANE_32];\n",
                              "w_v[j]", across)));
  const std::string by_batch = R"(
    kernel k(x: f32[3,1000,32], w: f32[3,32], out y: f32[3,1000,32]) blocks 2 warps 1 gpu {
      j: 32;
      grid b in 3, i in 1000 { y[b,i,j] = x[b,i,j] * w[b,j] @[j=LANE_32]; }
    })";
  EXPECT_EQ(kept(by_batch, 1, true, 2), kept(by_batch, 1));
}

TEST(KeepLoads, OnlyWhatTheWalkedDimensionsDoNotChange) {
  const std::string text = R"(
    kernel k(x: f32[3,1000,32], w: f32[3,32], out y: f32[3,1000,32]) blocks 2 warps 1 gpu {
      j: 32;
      grid b in 3, i in 1000 { y[b,i,j] = x[b,i,j] * w[b,j] @[j=LANE_32]; }
    })";
  kept(text, 0, false);
  EXPECT_NE(kept(text, 1).find("w_v[j] = w[b,j]"), std::string::npos);
}

}  // namespace
}  // namespace weft
