#include "driver/explain/memory_reads.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "driver/compiler.h"
#include "target/target.h"

namespace weft {
namespace {

std::unique_ptr<Compilation> planned(const std::string& text, const char* planner) {
  CompileOptions options;
  options.device = *find_target("a100-40gb");
  options.planner = planner;
  options.stop_after = "plan";
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  auto c = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(c.ok()) << c.error().message;
  return std::move(*c);
}

/// With room for so many bytes.
int64_t reads(const Compilation& c, int64_t room, CacheBefore before = CacheBefore::kAsLeft) {
  Target target = c.target;
  target.l2_bytes = 2 * room;
  return memory_reads(c.plan, c.tensors, target, before);
}

constexpr int64_t kAll = int64_t{1} << 30;

/// Three kernels, of which the last reads what the first read: x, then a, then b and x.
TEST(MemoryReads, WhatWasUsedLastStays) {
  const auto c = planned(R"(
(x: f32[1024]) {
  a = exp x : f32[1024]
  b = tanh a : f32[1024]
  y = add b, x : f32[1024]
} -> (y))",
                         "none");
  ASSERT_EQ(c->plan.kernels.size(), 3U);
  constexpr int64_t kTensor = 4096;
  EXPECT_EQ(reads(*c, kAll), kTensor);
  EXPECT_EQ(reads(*c, 3 * kTensor), kTensor);
  EXPECT_EQ(reads(*c, 2 * kTensor), 2 * kTensor) << "x has gone when b is there";
  EXPECT_EQ(reads(*c, 0), 4 * kTensor);
  EXPECT_EQ(reads(*c, kAll, CacheBefore::kEmpty), 4 * kTensor);
}

TEST(MemoryReads, OfATableTheRowsThatAreRead) {
  const auto c = planned(R"(
(table: f32[5000,64], at: i64[3]) {
  r = gather table, at, axis=0 : f32[3,64]
  y = exp r : f32[3,64]
} -> (y))",
                         "greedy");
  constexpr int64_t kRows = 3 * 64 * 4 + 3 * 8;
  EXPECT_GE(reads(*c, kAll), kRows);
  EXPECT_LE(reads(*c, kAll), 2 * kRows) << "of 1.2 MB";
}

/// 100 steps, each with a product of w (64 KB) and a slice of xs.
TEST(MemoryReads, StepsOfALoopFindItsWeights) {
  const auto c = planned(R"(
(h0: f32[1,128], xs: f32[100,1,128], w: f32[128,128]) {
  last, all = scan h0, xs, w, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[1,128], f32[100,1,128]
    region (h: f32[1,128], x: f32[1,128], w: f32[128,128]) {
      p = dot_general h, w, lhs_contract={1}, rhs_contract={0} : f32[1,128]
      a = add p, x : f32[1,128]
      n = tanh a : f32[1,128]
    } -> (n, y=n)
} -> (last, all))",
                         "greedy");
  constexpr int64_t kWeights = 128 * 128 * 4, kSlices = 100 * 128 * 4;
  const int64_t found = reads(*c, kAll);
  EXPECT_GE(found, kWeights + kSlices);
  EXPECT_LE(found, kWeights + kSlices + 2 * 128 * 4) << "and a state or two";
  EXPECT_GE(reads(*c, kWeights / 2), 100 * kWeights);
  EXPECT_GE(reads(*c, kAll, CacheBefore::kEmpty), 100 * kWeights);
}

/// Kernels of one launch hand each other values in the cache, as long as these stay in it.
TEST(MemoryReads, NestsOfALaunchRunOneAfterAnother) {
  const auto c = planned(R"(
(x: f32[256,256], v: f32[256,256], w: f32[256,256]) {
  p = dot_general x, v, lhs_contract={1}, rhs_contract={0} : f32[256,256]
  t = tanh p : f32[256,256]
  q = dot_general t, w, lhs_contract={1}, rhs_contract={0} : f32[256,256]
} -> (q))",
                         "souffle-v3");
  ASSERT_EQ(c->plan.kernels.size(), 1U);
  ASSERT_GE(c->plan.kernels[0].members.size(), 2U);
  constexpr int64_t kTensor = 256 * 256 * 4;
  EXPECT_EQ(reads(*c, kAll), 3 * kTensor);
  EXPECT_EQ(reads(*c, kAll, CacheBefore::kEmpty), 3 * kTensor);
  EXPECT_EQ(reads(*c, 3 * kTensor), 3 * kTensor) << "nest by nest it fits";
  const int64_t none = reads(*c, 0);
  EXPECT_GE(none, 4 * kTensor) << "t is read from memory, too";
  EXPECT_EQ(none, c->plan.kernels[0].schedule.estimate.bytes_read);
}

}  // namespace
}  // namespace weft
