#include "tile/rewrite/share_loads.h"
#include "tile/check/verify_tile_program.h"
#include "tile/text/tile_text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

/// The program after the pass; it must verify.
std::string shared(const std::string& text, bool changes = true) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  EXPECT_EQ(share_loads(*program), changes);
  const Status status = verify_tile_program(*program);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return print(*program);
}

std::string softmax(const std::string& first, const std::string& second) {
  return R"(kernel k(x: f32[7,100], out y: f32[7,100]) blocks 2 warps 4 gpu {
  j: 100;
  grid i in 7 step 4 {
)" + first +
         R"(    m[i] = max[j] )" + second + R"( @[i=WARP_4, j=LANE_32-VEC_4];
    y[i,j] = )" +
         second + R"( - m[i] @[i=WARP_4, j=LANE_32-VEC_4];
  }
}
)";
}

TEST(ShareLoads, OneLoadForSeveralReaders) {
  const std::string made = shared(softmax("", "x[i,j]"));
  const auto expected = parse_tile_program(
      softmax("    x_v[i,j] = x[i,j] @[i=WARP_4, j=LANE_32-VEC_4];\n", "x_v[i,j]"));
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  EXPECT_EQ(made, print(*expected));
}

TEST(ShareLoads, LiesAlongItsOwnAxesOnly) {
  const std::string made = shared(R"(
    kernel k(x: f32[8,32], w: f32[32], out y: f32[8,32]) blocks 2 warps 4 gpu {
      j: 32;
      grid i in 8 step 4 {
        a[i,j] = x[i,j] * w[j] @[i=WARP_4, j=LANE_32];
        y[i,j] = a[i,j] + w[j] @[i=WARP_4, j=LANE_32];
      }
    })");
  EXPECT_NE(made.find("w_v[j] = w[j] @[j=LANE_32]"), std::string::npos) << made;
}

TEST(ShareLoads, SharesWhatIsReadOnBothSidesOfAnotherLoad) {
  const std::string made = shared(R"(
    kernel k(x: f32[8,32], w: f32[8,32], out y: f32[8,32]) blocks 2 warps 4 gpu {
      j: 32;
      grid i in 8 step 4 {
        a[i,j] = exp(x[i,j]) @[i=WARP_4, j=LANE_32];
        b[i,j] = a[i,j] + w[i,j] @[i=WARP_4, j=LANE_32];
        c[i,j] = b[i,j] * w[i,j] @[i=WARP_4, j=LANE_32];
        seq k in 4 carry s[i,j]: f32 = 0.0 @[i=WARP_4, j=LANE_32] {
          s'[i,j] = s[i,j] + c[i,j] @[i=WARP_4, j=LANE_32];
        }
        y[i,j] = s[i,j] + x[i,j] @[i=WARP_4, j=LANE_32];
      }
    })");
  EXPECT_NE(made.find("y[i,j] = s[i,j] + x_v[i,j]"), std::string::npos) << made;
}

TEST(ShareLoads, KeepsReadsOfBranchesAndGathers) {
  shared(R"(
    kernel k(x: f32[64], t: i32[64], out y: f32[64]) blocks 1 warps 2 gpu {
      grid i in 64 step 64 {
        a[i] = 8 <= i ? x[i-8] : 0 @[i=WARP_2-LANE_32];
        b[i] = 8 <= i ? x[i-8] : 1;
        c[i] = x[i32(b[i])] + x[i32(b[i])];
        y[i] = a[i] + b[i] + c[i];
      }
    })",
         false);
}

TEST(ShareLoads, SeparateLoopsLoadForThemselves) {
  const std::string made = shared(R"(
    kernel k(x: f32[3,256], out y: f32[3,256]) blocks 3 warps 1 gpu {
      grid i in 3 {
        seq j in 256 step 32 carry s[.j]: f32 = 0, q[.j]: f32 = 0 @[j=LANE_32] {
          s'[.j] = s[.j] + x[i,j];
          q'[.j] = q[.j] + x[i,j] * x[i,j];
        }
        seq j in 256 step 32 { y[i,j] = x[i,j] @[j=LANE_32]; }
      }
    })");
  EXPECT_NE(made.find("x_v[j] = x[i,j]"), std::string::npos) << made;
  EXPECT_NE(made.find("y[i,j] = x[i,j]"), std::string::npos) << made;
}

}  // namespace
}  // namespace weft
