#include <gtest/gtest.h>

#include <cmath>

#include "lower/lower.h"
#include "tests/lower/lowered_program.h"
#include "tile/text/tile_text.h"

namespace weft::testing {
namespace {

// What a barrier inside a nest divides runs for all iterations before what stands behind it.
TEST(LowerInnerBarriers, DivideANest) {
  const HostTensor x = sample(DType::kF32, {7, 50}, 1);
  double all = 0;
  for (int64_t i = 0; i < x.size(); ++i) all += std::exp(x.at_double(i));
  expect_lowered(R"(
    kernel k(x: f32[7,50], out y: f32[7,50]) blocks P warps 1 {
      j: 50; t: 7;
      grid i in 7 {
        X[j] = exp(x[i,j]) @[j=REG_4-VEC_16];
        s[i] = sum[j] X[j];
        S = sum[t] s[t];
        y[i,j] = X[j] / S;
      }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) { return std::exp(at(x, c)) / all; });
}

// A carry that other iterations of the grid read has two buffers, a barrier in each iteration and
// a piece of the nest before, in and behind the loop.
TEST(LowerInnerBarriers, StandInLoops) {
  const HostTensor x = sample(DType::kF32, {11}, 2);
  std::vector<double> h(11);
  for (size_t i = 0; i < h.size(); ++i) h[i] = 2 * at(x, {static_cast<int64_t>(i)});
  for (int64_t t = 0; t < 5; ++t) {
    std::vector<double> next(h.size());
    for (size_t i = 0; i < h.size(); ++i) next[i] = h[h.size() - 1 - i] + static_cast<double>(t);
    h = next;
  }
  expect_lowered(R"(
    kernel k(x: f32[11], out y: f32[11]) blocks P warps 1 {
      grid i in 11 step 4 {
        D[i] = x[i] * 2;
        seq t in 5 carry h[i]: f32 = D[i] @[i=REG_4] {
          h'[i] = h[10 - i] + f32(t);
        }
        y[i] = h[i] + D[i];
      }
    })",
                 {{"x", x}}, "y",
                 [&](const Coordinates& c) { return h[static_cast<size_t>(c[0])] + 2 * at(x, c); });
}

// Iterations of an inner loop read elements that earlier ones have updated: what they get is the
// value before the update.
TEST(LowerCarries, ReadInALoopWhatItUpdates) {
  const HostTensor x = sample(DType::kF32, {3, 9}, 3);
  const auto expected = [&](const Coordinates& c) {
    std::vector<double> h(9);
    for (int64_t l = 0; l < 9; ++l) h[static_cast<size_t>(l)] = at(x, {c[0], l});
    for (int t = 0; t < 4; ++t) {
      for (size_t l = 8; l > 0; --l) h[l] = h[l - 1] + 1;
      h[0] = 1;
    }
    return h[static_cast<size_t>(c[1])];
  };
  expect_lowered(R"(
    kernel k(x: f32[3,9], out y: f32[3,9]) blocks P warps 1 {
      ll: 9;
      grid i in 3 {
        seq t in 4 carry h[ll]: f32 = x[i,ll] @[ll=REG_9] {
          seq l in 9 {
            a = l == 0 ? 0 : h[l-1];
            h'[l] = a + 1;
          }
        }
        y[i,ll] = h[ll];
      }
    })",
                 {{"x", x}}, "y", expected);
}

// A first value of many elements is stored in loops, also of a block that has fewer rows.
TEST(LowerCarries, BeginInLoopsWhereTheyAreLarge) {
  const std::string text = R"(
    kernel k(x: f32[37,64], z: f32[3], out y: f32[37,64]) blocks P warps 1 {
      c: 64;
      grid i in 37 step 24 {
        seq t in 3 carry s[i,c]: f32 = x[i,c] * 2 @[i=REG_24, c=REG_4-VEC_16] {
          seq l in i-.i .. min(i-.i+24, 37), j in 64 step 16 {
            s'[l,j] = s[l,j] + z[t] @[j=VEC_16];
          }
        }
        seq l in i-.i .. min(i-.i+24, 37) { y[l,c] = s[l,c] @[c=REG_4-VEC_16]; }
      }
    })";
  const HostTensor x = sample(DType::kF32, {37, 64}, 3), z = sample(DType::kF32, {3}, 4);
  expect_lowered(text, {{"x", x}, {"z", z}}, "y", [&](const Coordinates& c) {
    return 2 * at(x, c) + at(z, {0}) + at(z, {1}) + at(z, {2});
  });
  const std::string kernel = print(lower_text(text));
  size_t stores = 0;
  for (size_t p = kernel.find("store "); p != std::string::npos; p = kernel.find("store ", p + 1))
    ++stores;
  EXPECT_LE(stores, 64U) << "24 rows of four vectors are 96";
}

TEST(LowerInnerBarriers, AreRefusedInLoopsThatDiffer) {
  const auto program = parse_tile_program(R"(
    kernel k(x: f32[8], out y: f32[8]) blocks P warps 1 {
      grid i in 8 {
        seq t in i carry h[i]: f32 = x[i] { h'[i] = h[7 - i]; }
        y[i] = h[i];
      }
    })");
  ASSERT_TRUE(program.ok()) << program.error().message;
  const auto kernel = lower_to_kernel(*program, test_target());
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(kernel.error().message.find("loop over t"), std::string::npos)
      << kernel.error().message;
}

}  // namespace
}  // namespace weft::testing
