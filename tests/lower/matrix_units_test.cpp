// Products by matrix units: fragments through load_matrix from swizzled tiles, pipelines of
// asynchronous copies, what passes through registers instead, and every kind of tail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lower/lowered_program.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/text/tile_text.h"

namespace weft::testing {
namespace {

std::string replaced(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [from, to] : values) {
    for (size_t p = text.find(from); p != std::string::npos; p = text.find(from, p + to.size())) {
      text.replace(p, from.size(), to);
    }
  }
  return text;
}

/// y = a b for [M,K] x [K,N]; the tiles hold 32 x 32 x 32.
double product(const HostTensor& a, const HostTensor& b, const Coordinates& c) {
  double sum = 0;
  for (int64_t k = 0; k < b.shape()[0]; ++k) sum += at(a, {c[0], k}) * at(b, {k, c[1]});
  return sum;
}

const char* const kProduct = R"(
    kernel k(a: $TYPE[$MM,$KK], b: $TYPE[$KK,$NN], out y: f32[$MM,$NN]) blocks $BLOCKS warps 4 gpu {
      grid m in $MM step 32, n in $NN step 32 {
        seq k in $KK step 32 stages $STAGES carry acc[m,n]: f32 = 0 @[m=WARP_2-REG_2-LANE_8, n=WARP_2-REG_2-LANE_4-VEC_2] {
          A[m,k] = a[m,k] at block @[m=REG_$ROWS-WARP_4-LANE_$LA, k=LANE_$LK-VEC_$W];
          B[k,n] = b[k,n] at block @[k=REG_$ROWS-WARP_4-LANE_$LA, n=LANE_$LK-VEC_$W];
          p[m,n] = sum[k] A[m,k]*B[k,n] by mma_m16n8k16 : f32 @[m=WARP_2-REG_2-LANE_8, n=WARP_2-REG_2-LANE_4-VEC_2, k=REG_32];
          acc'[m,n] = acc[m,n] + p[m,n] @[m=WARP_2-REG_2-LANE_8, n=WARP_2-REG_2-LANE_4-VEC_2];
        }
        y[m,n] = acc[m,n] @[m=WARP_2-REG_2-LANE_8, n=WARP_2-REG_2-LANE_4-VEC_2];
      }
    })";

std::string product_text(const std::string& type, int64_t m, int64_t n, int64_t k, int stages,
                         int width) {
  const int lanes = 32 / width, across = std::max(32 / lanes, 1);
  return replaced(kProduct, {{"$TYPE", type},
                             {"$MM", std::to_string(m)},
                             {"$NN", std::to_string(n)},
                             {"$KK", std::to_string(k)},
                             {"$BLOCKS", std::to_string((m + 31) / 32 * ((n + 31) / 32))},
                             {"$STAGES", std::to_string(stages)},
                             {"$ROWS", std::to_string(32 / (4 * across))},
                             {"$LA", std::to_string(across)},
                             {"$LK", std::to_string(lanes)},
                             {"$W", std::to_string(width)}});
}

/// Beyond a tail of the depth the rows of a unit are zero, also where they come out of memory of
/// the block that holds anything there.
TEST(LowerMatrixUnits, RowsOutOfSharedMemoryEndInZeros) {
  const HostTensor a = sample(DType::kF16, {32, 21}, 1), b = sample(DType::kF16, {21, 32}, 2);
  std::string text = product_text("f16", 32, 32, 21, 1, 1);
  text = replaced(text, {{"A[m,k] = a[m,k]",
                          "T[m,k] = a[m,k]*2.0 at block @[m=REG_8-WARP_4, "
                          "k=LANE_32];\n          A[m,k] = T[m,k]*0.5"},
                         {"m=REG_8-WARP_4-LANE_1, k=LANE_32-VEC_1", "m=WARP_4-REG_8, k=LANE_32"}});
  expect_lowered(
      text, {{"a", a}, {"b", b}}, "y", [&](const Coordinates& c) { return product(a, b, c); },
      1e-2);
  text = replaced(text, {{"a[m,k]*2.0", "a[m,k]"}, {"T[m,k]*0.5", "T[m,k]"}});
  expect_lowered(
      text, {{"a", a}, {"b", b}}, "y", [&](const Coordinates& c) { return product(a, b, c); },
      1e-2);
}

TEST(LowerMatrixUnits, PipelinesOfAnyDepth) {
  for (const int stages : {2, 3, 4}) {
    for (const char* type : {"f16", "bf16"}) {
      const DType t = *parse_dtype(type);
      const HostTensor a = sample(t, {64, 160}, 1), b = sample(t, {160, 32}, 2);
      const std::string text = product_text(type, 64, 32, 160, stages, 8);
      expect_lowered(
          text, {{"a", a}, {"b", b}}, "y", [&](const Coordinates& c) { return product(a, b, c); },
          1e-4);
      const KernelFunction kernel = lower_text(text);
      EXPECT_EQ(count_instructions(kernel, KernelOp::kBarrier), 1);
      EXPECT_EQ(count_instructions(kernel, KernelOp::kMatrixMultiply), 4);  // sums in place
      EXPECT_EQ(kernel.shared_bytes, stages * 2 * 32 * 32 * 2);
    }
  }
}

TEST(LowerMatrixUnits, TailsAreFilledWithZeros) {
  for (const int width : {8, 4, 2, 1}) {
    // Rows of the operands begin at multiples of the width alone.
    const int64_t m = 37, n = 32 + width, k = 64 + width;
    const HostTensor a = sample(DType::kF16, {m, k}, 3), b = sample(DType::kF16, {k, n}, 4);
    const std::string text = product_text("f16", m, n, k, 3, width);
    expect_lowered(
        text, {{"a", a}, {"b", b}}, "y", [&](const Coordinates& c) { return product(a, b, c); },
        1e-4);
    // Two bytes are too few for an asynchronous copy.
    const KernelFunction kernel = lower_text(text);
    EXPECT_EQ(count_instructions(kernel, KernelOp::kCopyAsync) > 0, width > 1);
  }
}

/// Warp groups: 128 x 128 results of two groups, panels of 64 columns; by rows along the depth or
/// across it.
const char* const kByGroups = R"(
    kernel k(a: $TYPE[$MM,$KK], b: $TYPE[$BSHAPE], out y: f32[$MM,$NN]) blocks $BLOCKS warps 8 gpu {
      grid m in $MM step 128, n in $NN step 128 {
        seq k in $KK step 64 stages $STAGES carry acc[m,n]: f32 = 0 @[m=WARP_8-REG_2-LANE_8, n=REG_16-LANE_4-VEC_2] {
          A[m,k] = a[m,k] at block @[m=REG_4-WARP_8-LANE_4, k=LANE_8-VEC_8];
          B[$BI] = b[$BI] at block @[$BPLACE];
          p[m,n] = sum[k] A[m,k]*B[$BI] by wgmma_m64k16 : f32 @[m=WARP_8-REG_2-LANE_8, n=REG_16-LANE_4-VEC_2];
          acc'[m,n] = acc[m,n] + p[m,n] @[m=WARP_8-REG_2-LANE_8, n=REG_16-LANE_4-VEC_2];
        }
        y[m,n] = acc[m,n] @[m=WARP_8-REG_2-LANE_8, n=REG_16-LANE_4-VEC_2];
      }
    })";

std::string by_groups(const std::string& type, int64_t m, int64_t n, int64_t k, int stages,
                      bool along) {
  const auto text = [](int64_t i) { return std::to_string(i); };
  return replaced(kByGroups,
                  {{"$TYPE", type},
                   {"$BSHAPE", along ? text(n) + "," + text(k) : text(k) + "," + text(n)},
                   {"$BI", along ? "n,k" : "k,n"},
                   {"$BPLACE", along ? "n=REG_4-WARP_8-LANE_4, k=LANE_8-VEC_8"
                                     : "k=REG_4-WARP_8-LANE_2, n=LANE_16-VEC_8"},
                   {"$MM", text(m)},
                   {"$NN", text(n)},
                   {"$KK", text(k)},
                   {"$BLOCKS", text((m + 127) / 128 * ((n + 127) / 128))},
                   {"$STAGES", text(stages)}});
}

TEST(LowerMatrixUnits, WarpGroupsMultiplyOutOfPanels) {
  for (const bool along : {false, true}) {
    for (const int stages : {3, 4}) {
      const DType type = along ? DType::kBF16 : DType::kF16;
      const HostTensor a = sample(type, {136, 200}, 1),
                       b = along ? sample(type, {152, 200}, 2) : sample(type, {200, 152}, 2);
      const std::string text = by_groups(along ? "bf16" : "f16", 136, 152, 200, stages, along);
      expect_lowered(
          text, {{"a", a}, {"b", b}}, "y",
          [&](const Coordinates& c) {
            double sum = 0;
            for (int64_t k = 0; k < 200; ++k)
              sum += at(a, {c[0], k}) * (along ? at(b, {c[1], k}) : at(b, {k, c[1]}));
            return sum;
          },
          1e-4);
      const KernelFunction kernel = lower_text(text);
      EXPECT_EQ(count_instructions(kernel, KernelOp::kGroupMultiply), 1);
      // With four stages a product is under way while the next operands arrive.
      EXPECT_EQ(count_instructions(kernel, KernelOp::kGroupWait), stages == 4 ? 1 : 0);
      EXPECT_EQ(count_instructions(kernel, KernelOp::kMatrixMultiply), 0);
    }
  }
}

/// What a warp group cannot multiply is refused, not built otherwise.
TEST(LowerMatrixUnits, WarpGroupsTakeWhatLiesInPanels) {
  const std::string right = by_groups("f16", 128, 128, 64, 3, false);
  const auto refusal = [](const std::string& text) {
    const auto program = parse_tile_program(text);
    EXPECT_TRUE(program.ok()) << text;
    const auto scopes = derive_scopes(*program);
    return scopes.ok() ? "" : scopes.error().message;
  };
  EXPECT_EQ(refusal(right), "");
  // Half a panel along the depth.
  EXPECT_THAT(refusal(replaced(right, {{"k in 64 step 64", "k in 64 step 32"}})),
              ::testing::HasSubstr("does not lie in panels"));
  // Three warps are no group.
  EXPECT_THAT(refusal(replaced(right, {{"warps 8 gpu", "warps 9 gpu"}})),
              ::testing::HasSubstr("groups of 4 warps"));
  EXPECT_THAT(refusal(replaced(by_groups("f32", 128, 128, 64, 3, false), {})),
              ::testing::HasSubstr("no product of 16-bit floats"));
}

TEST(LowerMatrixUnits, FewerIterationsThanStages) {
  const HostTensor a = sample(DType::kF16, {32, 24}, 5), b = sample(DType::kF16, {24, 32}, 6);
  expect_lowered(
      product_text("f16", 32, 32, 24, 4, 8), {{"a", a}, {"b", b}}, "y",
      [&](const Coordinates& c) { return product(a, b, c); }, 1e-4);
}

}  // namespace
}  // namespace weft::testing
