#include "cost/window_time.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

/// 100 GFLOP/s, 50 GB/s from the second cache, 20 from the third one, 10 from memory.
Target machine() {
  Target t;
  t.kind = Target::Kind::kCpu;
  t.threads = 1;
  t.l2_bytes = 1 << 20;
  t.peak_gflops = 100;
  t.bandwidth = {{1 << 19, 50}, {1 << 20, 20}, {1 << 24, 20}, {1 << 26, 10}};
  return t;
}

/// 3 x 3 places of 64 channels on 56 x 56 pixels.
WindowSum pictures() {
  return {.name = "y",
          .tiles = 28 * 28,
          .results = 56 * 56,
          .inputs = 64,
          .outputs = 64,
          .places = 9,
          .products = 16,
          .along_vectors = true};
}

TEST(WindowTime, IsThatOfRates) {
  const WindowTime time = window_time(pictures(), machine());
  const double weights = 64 * 64 * 4 / 10e3;  // us a place
  EXPECT_NEAR(time.direct_us, 2.0 * 3136 * 9 * 4096 / 0.85 / 1e5 + 9 * weights, 1e-6);
  const double handed = 2.0 * 784 * 16 * 64 * 4;  // bytes
  // A sum begins and ends as 8 steps do, an element of a window takes 12 operations.
  const double products = 784 * 16 * (2.0 * (64 + 8) * 64 + 12 * 64) / 1e5;
  EXPECT_NEAR(time.filtered_us, products + 16 * weights + handed / 50e3 + handed / 20e3, 1e-6);
}

/// An element of them takes 40 operations, is written and read again.
TEST(WindowTime, WeightsThatVaryAreTransformed) {
  WindowSum sum = pictures();
  sum.varies = true;
  const double elements = 16 * 64 * 64;
  EXPECT_NEAR(window_time(sum, machine()).filtered_us,
              window_time(pictures(), machine()).filtered_us + 40 * elements / 1e5 +
                  2 * 4 * elements / 50e3,
              1e-6);
  EXPECT_TRUE(pays_filtered(sum, machine()));
  sum.tiles = 32, sum.results = 128;
  EXPECT_FALSE(pays_filtered(sum, machine()));
  sum.varies = false;
  EXPECT_TRUE(pays_filtered(sum, machine()));
}

TEST(WindowTime, FiltersWhatIsClearlyQuicker) {
  EXPECT_TRUE(pays_filtered(pictures(), machine()));
  WindowSum few = pictures();
  few.inputs = few.outputs = 8;  // what is handed on takes longer than all products
  EXPECT_FALSE(pays_filtered(few, machine()));
  WindowSum small = pictures();  // weights take longer
  small.tiles = 16, small.results = 49, small.inputs = small.outputs = 512;
  EXPECT_FALSE(pays_filtered(small, machine()));
  // Groups: sums as short as their channels are few, and columns that fill vectors in part.
  WindowSum groups = pictures();
  groups.groups = 2;
  EXPECT_TRUE(pays_filtered(groups, machine()));
  groups.groups = 6, groups.inputs = groups.outputs = 24;
  EXPECT_FALSE(pays_filtered(groups, machine()));
  WindowSum apart = pictures();
  apart.along_vectors = false;
  EXPECT_FALSE(pays_filtered(apart, machine()));
  // A processor that multiplies pairs of bfloat16 takes half of the time without.
  WindowSum pairs = pictures();
  pairs.of_pairs = true;
  EXPECT_TRUE(pays_filtered(pairs, machine()));
  Target multiplies = machine();
  multiplies.features = {"avx512bf16"};
  EXPECT_FALSE(pays_filtered(pairs, multiplies));
}

}  // namespace
}  // namespace weft
