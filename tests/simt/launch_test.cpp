// Small kernels, one fault each: what the emulator says about it, and that it says nothing about
// the same kernel without the fault.

#include "simt/launch.h"

#include <algorithm>

#include "tests/simt/kernel_fixture.h"

namespace weft::simt {
namespace {

using ::testing::HasSubstr;

constexpr size_t kWords = 256;

/// A kernel (int* x) with `body`, over two blocks of 64 threads; x holds 0, 1, 2, …
struct Outcome {
  Report report;
  std::vector<int32_t> x;
};
Outcome run(const std::string& body, LaunchShape shape = {{2, 1, 1}, 64, 1, false, 4096},
            LaunchOptions options = {}) {
  const std::string text =
      "#include \"weft_cuda.h\"\n"
      "WF_KERNEL(k, 64, 1)(s32* x, u32* counter, s32* y) {\n"
      "WF_SHARED(shared);\n"
      "s32* s = (s32*)shared;\n"
      "const s32 t = wf_thread();\n"
      "x += wf_block_x() * 64;\n" +
      body + "\n}\nWF_EXPORT(k)\n";
  Outcome result;
  const auto module = compile(text);
  if (module == nullptr) return result;
  DeviceArray<int32_t> x(kWords);
  DeviceArray<int32_t> y(kWords);
  DeviceArray<uint32_t> counter(1);
  for (size_t i = 0; i < kWords; ++i) x[i] = static_cast<int32_t>(i);
  Emulator emulator;
  Result<Report> report = emulator.launch(
      *module, "k", shape,
      {x.buffer("x", Buffer::Use::kReadWrite), counter.buffer("counter", Buffer::Use::kReadWrite),
       y.buffer("y", Buffer::Use::kScratch)},
      {x.data(), counter.data(), y.data()}, options);
  if (!report.ok()) {
    ADD_FAILURE() << report.error().message;
    return result;
  }
  result.report = std::move(*report);
  result.x.assign(x.span().begin(), x.span().end());
  return result;
}

/// The body's first line stands on this line of the text.
constexpr int kFirstLine = 7;

void expect_clean(const std::string& body) {
  const Outcome result = run(body);
  EXPECT_TRUE(result.report.clean()) << print(result.report) << body;
}

/// Some issue of this kind names the two lines, in either order: which thread comes first decides.
void expect_issue(IssueKind kind, int line, int other_line, const std::string& body,
                  LaunchShape shape = {{2, 1, 1}, 64, 1, false, 4096}) {
  const Outcome result = run(body, shape);
  bool found = false;
  for (const Issue& issue : result.report.issues) {
    found |= issue.kind == kind &&
             std::minmax(issue.line, issue.other_line) == std::minmax(line, other_line);
  }
  EXPECT_TRUE(found) << print(result.report) << body;
}

TEST(Launch, RunsEveryThread) {
  const Outcome result = run("x[t] = x[t] * 2 + (s32)wf_grid_x();");
  EXPECT_TRUE(result.report.clean()) << print(result.report);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(result.x[static_cast<size_t>(i)], i * 2 + 2);
}

TEST(Launch, RaceBetweenThreadsNamesBothLines) {
  expect_issue(IssueKind::kRace, kFirstLine + 1, kFirstLine, "s[t] = x[t];\nx[t] = s[63 - t];");
  expect_clean("s[t] = x[t];\nwf_sync_block();\nx[t] = s[63 - t];");
}

TEST(Launch, RaceOfAWriteWithAnEarlierRead) {
  expect_issue(IssueKind::kRace, kFirstLine + 3, kFirstLine + 2,
               "s[t] = x[t];\nwf_sync_block();\ns32 v = s[63 - t];\ns[t] = v;");
}

TEST(Launch, RaceBetweenBlocks) {
  expect_issue(IssueKind::kRace, kFirstLine, kFirstLine, "y[t] = t;");
}

TEST(Launch, AWarpBarrierOrdersTheLanesOfItsMask) {
  expect_clean("s[t] = x[t];\nwf_sync_warp(WF_FULL);\nx[t] = s[t ^ 1];");
  expect_issue(IssueKind::kRace, kFirstLine + 2, kFirstLine,
               "s[t] = x[t];\nwf_sync_warp(WF_FULL);\nx[t] = s[t ^ 32];");
  expect_issue(IssueKind::kRace, kFirstLine + 2, kFirstLine,
               "s[t] = x[t];\nwf_sync_warp(wf_lane() < 16 ? 0xffffu : 0xffff0000u);\n"
               "x[t] = s[t ^ 16];");
}

TEST(Launch, AShuffleOrdersNothing) {
  expect_issue(IssueKind::kRace, kFirstLine + 2, kFirstLine,
               "s[t] = x[t];\nx[t] = wf_shfl_xor(WF_FULL, x[t], 1);\nx[t] += s[t ^ 1];");
}

TEST(Launch, BytesOfAWordAreTheirOwn) {
  expect_clean("shared[t] = (u8)x[t];\nwf_sync_block();\nx[t] = shared[63 - t];");
  expect_issue(IssueKind::kRace, kFirstLine + 1, kFirstLine,
               "shared[t] = (u8)x[t];\nx[t] = shared[t ^ 1];");
}

TEST(Launch, UninitialisedReads) {
  expect_issue(IssueKind::kUninitialisedRead, kFirstLine, 0, "x[t] = s[t];");
  expect_issue(IssueKind::kUninitialisedRead, kFirstLine, 0, "x[t] = y[t];");
  expect_issue(IssueKind::kUninitialisedRead, kFirstLine + 1, 0,
               "((u16*)shared)[2 * t] = 1;\nx[t] = s[t];");
}

TEST(Launch, OutOfBounds) {
  expect_issue(IssueKind::kOutOfBounds, kFirstLine, 0, "x[t + 193] = 0;");
  expect_issue(IssueKind::kOutOfBounds, kFirstLine, 0, "s[1024 + t] = 0;");
  expect_issue(IssueKind::kOutOfBounds, kFirstLine, 0, "x[t] = *(s32*)(u64)(t * 4);");
}

TEST(Launch, Misaligned) {
  expect_issue(IssueKind::kMisaligned, kFirstLine, 0, "x[t] = wf_load<4>(x + t)[0];");
  expect_issue(IssueKind::kMisaligned, kFirstLine, 0, "*(s32*)(shared + 2 * t) = 0;");
}

TEST(Launch, ReadOnlyLoadsOfWhatTheLaunchWrote) {
  expect_clean("x[t] = wf_load_ro<1>(x + t)[0] + 1;");
  expect_issue(IssueKind::kStaleRead, kFirstLine + 1, kFirstLine,
               "x[t] = 1;\nx[t] = wf_load_ro<1>(x + t)[0];");
}

TEST(Launch, DivergentBarriers) {
  expect_issue(IssueKind::kDivergentBarrier, kFirstLine + 1, kFirstLine,
               "if (t < 32) { wf_sync_block(); } else {\nwf_sync_block(); }");
  expect_issue(IssueKind::kDivergentBarrier, kFirstLine, 0, "if (t < 60) { wf_sync_block(); }");
  expect_issue(IssueKind::kDivergentBarrier, kFirstLine + 1, 0,
               "if (t == 3) { return; }\nwf_sync_block();");
  expect_issue(IssueKind::kDivergentBarrier, kFirstLine, 0,
               "for (s32 i = 0; i < (t < 32 ? 7 : 6); ++i) { wf_sync_block(); }");
}

TEST(Launch, PartialWarpCollectives) {
  expect_clean("if (wf_lane() < 16) { x[t] = wf_shfl_xor(0xffffu, x[t], 8); }");
  expect_issue(IssueKind::kDivergentCollective, kFirstLine, 0,
               "if (wf_lane() < 16) { x[t] = wf_shfl_xor(WF_FULL, x[t], 8); }");
  expect_issue(IssueKind::kDivergentCollective, kFirstLine + 1, 0,
               "if (wf_lane() == 3) { return; }\nx[t] = wf_shfl_xor(WF_FULL, x[t], 8);");
  expect_issue(IssueKind::kDivergentCollective, kFirstLine + 1, kFirstLine,
               "if (wf_lane() < 16) { x[t] = wf_shfl_xor(WF_FULL, x[t], 8); } else {\n"
               "x[t] = wf_shfl_xor(WF_FULL, x[t], 8); }");
  expect_issue(IssueKind::kInvalidCollective, kFirstLine, 0,
               "x[t] = wf_shfl_xor(wf_lane() < 16 ? 0xffffu : 0xffff0000u, x[t], 16);");
  expect_issue(IssueKind::kDeadlock, kFirstLine, 0,
               "if (wf_lane() < 16) { x[t] = wf_shfl_xor(WF_FULL, x[t], 8); }\nwf_sync_block();");
}

TEST(Launch, ShufflesAndVotes) {
  const Outcome result = run(
      "s64 wide = (s64)x[t] << 33;\n"
      "wide = wf_shfl_down(WF_FULL, wide, 31);\n"
      "f16 half = wf_shfl(WF_FULL, wf_to_f16((float)t), 35);\n"
      "const u32 odd = wf_ballot(WF_FULL, (t & 1) != 0);\n"
      "const bool any = wf_any(WF_FULL, t == 40), all = wf_all(WF_FULL, t < 40);\n"
      "x[t] = (s32)(wide >> 33) + (s32)wf_to_float(half) * 1000 + (odd == 0xaaaaaaaau) * 100000 +\n"
      "any * 1000000 + all * 10000000;");
  EXPECT_TRUE(result.report.clean()) << print(result.report);
  EXPECT_EQ(result.x[0], 31 + 3000 + 100000 + 10000000);
  EXPECT_EQ(result.x[5], 5 + 3000 + 100000 + 10000000);
  EXPECT_EQ(result.x[32], 63 + 35000 + 100000 + 1000000);
}

TEST(Launch, AsyncCopies) {
  const std::string copy = "wf_cp_async_4(s + t, x + t);\nwf_cp_commit();\n";
  expect_clean(copy + "wf_cp_wait<0>();\nwf_sync_block();\nx[t] = s[63 - t];");
  expect_issue(IssueKind::kRace, kFirstLine + 3, kFirstLine,
               copy + "wf_cp_wait<0>();\nx[t] = s[63 - t];");
  expect_issue(IssueKind::kPendingCopy, kFirstLine + 3, kFirstLine,
               copy + "wf_sync_block();\ny[0] = s[63 - t];");
  expect_issue(IssueKind::kPendingCopy, kFirstLine + 3, kFirstLine,
               copy + "wf_cp_wait<1>();\nx[t] = s[t];");
  expect_issue(IssueKind::kPendingCopy, kFirstLine + 2, kFirstLine,
               "wf_cp_async_4(s + t, x + t);\nwf_cp_wait<0>();\nx[t] = s[t];");
  expect_issue(IssueKind::kUnfinishedCopy, kFirstLine, 0, copy);
}

/// A warp group's product that is under way reads its operands until it is waited for, or the next
/// one has begun.
TEST(Launch, ProductsUnderWayStillRead) {
  const auto body = [](const std::string& under_way, const std::string& before,
                       const std::string& behind) {
    return "for (s32 i = t; i < 1024; i += 64) { s[i] = 0; }\nwf_sync_block();\n"
           "float d[4] = {0, 0, 0, 0};\n"
           "wf_group_multiply(0, f16, d, shared, shared, 16, 4096, false, 4096, false, " +
           under_way + ");\n" + before + "wf_sync_block();\ns[t] = x[t];\n" + behind;
  };
  const std::string wait = "wf_group_wait(d);\n";
  expect_issue(IssueKind::kRace, kFirstLine + 5, kFirstLine + 3, body("true", "", wait));
  expect_clean(body("true", wait, ""));
  expect_clean(body("false", "", ""));
  // Without a barrier another warp still reads.
  expect_issue(
      IssueKind::kRace, kFirstLine + 5, kFirstLine + 3,
      "for (s32 i = t; i < 1024; i += 64) { s[i] = 0; }\nwf_sync_block();\n"
      "float d[4] = {0, 0, 0, 0};\n"
      "wf_group_multiply(0, f16, d, shared, shared, 16, 4096, false, 4096, false, false);\n"
      "x[t] = (s32)d[0];\ns[t] = x[t];\n");
}

TEST(Launch, AsyncCopiesFillWithZeros) {
  const Outcome result =
      run("wf_cp_async_16_fill(s + 4 * t, t < 16 ? x + 4 * t : (s32*)0, t < 15 ? 16 : t < 16 ? 6 : "
          "0);\n"
          "wf_cp_commit();\nwf_cp_wait<0>();\nwf_sync_block();\nx[t] = s[t] + s[t + 64];");
  EXPECT_TRUE(result.report.clean()) << print(result.report);
  EXPECT_EQ(result.x[59], 59);
  EXPECT_EQ(result.x[60], 60);
  EXPECT_EQ(result.x[61], 61 & 0xffff);
  EXPECT_EQ(result.x[62], 0);
}

TEST(Launch, AtomicsOrderNothingButAsAsked) {
  const Outcome sum = run("wf_atomic_add(counter, 2u);\nwf_atomic_max(x, t);");
  EXPECT_TRUE(sum.report.clean()) << print(sum.report);
  EXPECT_EQ(sum.x[0], 63);
  expect_issue(IssueKind::kRace, kFirstLine + 1, kFirstLine,
               "wf_atomic_add(counter, 2u);\nx[t] = (s32)*counter;");
  // The last block to arrive reads what the first one wrote.
  const std::string first = "if (t == 0) {\ny[wf_block_x()] = 7;\n";
  const std::string last = ") { x[0] = y[0] + y[1]; } }";
  expect_clean(first + "if (wf_atomic_add_acq_rel(counter, 1u) == 1" + last);
  expect_clean(first + "wf_fence();\nconst u32 old = wf_atomic_add(counter, 1u);\nwf_fence();\n" +
               "if (old == 1" + last);
  expect_issue(IssueKind::kRace, kFirstLine + 2, kFirstLine + 1,
               first + "if (wf_atomic_add(counter, 1u) == 1" + last);
  expect_issue(
      IssueKind::kRace, kFirstLine + 3, kFirstLine + 1,
      first + "const u32 old = wf_atomic_add(counter, 1u); wf_fence();\nif (old == 1" + last);
  expect_issue(
      IssueKind::kRace, kFirstLine + 3, kFirstLine + 1,
      first + "wf_fence(); const u32 old = wf_atomic_add(counter, 1u);\nif (old == 1" + last);
}

TEST(Launch, ABarrierHandsOnWhatOneThreadAcquired) {
  const std::string text =
      "y[wf_block_x() * 64 + t] = t;\nwf_sync_block();\n"
      "if (t == 0) { s[0] = wf_atomic_add_acq_rel(counter, 1u) == 1; }\n";
  expect_clean(text + "wf_sync_block();\nif (s[0]) { x[t] = y[63 - t] + y[127 - t]; }");
  // Without the first barrier, the other threads' writes were not released.
  const Outcome result =
      run("y[wf_block_x() * 64 + t] = t;\n"
          "if (t == 0) { s[0] = wf_atomic_add_acq_rel(counter, 1u) == 1; }\n"
          "wf_sync_block();\nif (s[0]) { x[t] = y[63 - t]; }");
  EXPECT_TRUE(has_issue(result.report, IssueKind::kRace)) << print(result.report);
}

TEST(Launch, SpinningThreadsLetOthersRun) {
  const std::string flag =
      "if (t == 0) {\nif (wf_block_x() == 1) { y[0] = 5; wf_store_release(counter, 1u); }\n"
      "while (wf_load_acquire(counter) == 0) {\n}\nx[0] = y[0]; }";
  const LaunchShape together = {{2, 1, 1}, 64, 1, true, 4096};
  const Outcome result = run(flag, together);
  EXPECT_TRUE(result.report.clean()) << print(result.report);
  EXPECT_EQ(result.x[64], 5);
  // Block 0 spins before block 1 has run.
  const Outcome alone = run(flag);
  EXPECT_FALSE(alone.report.completed);
  EXPECT_TRUE(has_issue(alone.report, IssueKind::kDeadlock)) << print(alone.report);
}

TEST(Launch, GridBarrier) {
  const std::string body =
      "y[wf_block_x() * 64 + t] = t;\nwf_sync_grid(counter);\nx[t] = y[127 - wf_block_x() * 64 - "
      "t];";
  const LaunchShape together = {{2, 1, 1}, 64, 1, true, 4096};
  const Outcome result = run(body, together);
  EXPECT_TRUE(result.report.clean()) << print(result.report);
  EXPECT_EQ(result.x[0], 63);
  expect_issue(IssueKind::kUnsupportedOperation, kFirstLine + 1, 0, body);
  expect_issue(IssueKind::kRace, kFirstLine + 2, kFirstLine,
               "y[wf_block_x() * 64 + t] = t;\nwf_sync_block();\n"
               "x[t] = y[127 - wf_block_x() * 64 - t];",
               together);
}

TEST(Launch, ClusterBarrierAndDistributedSharedMemory) {
  const LaunchShape pair = {{4, 1, 1}, 32, 2, false, 4096};
  const std::string body =
      "s[t] = t + (s32)wf_block_x() * 100;\nwf_sync_cluster();\n"
      "y[wf_block_x() * 32 + t] = wf_cluster_map(s, wf_cluster_rank() ^ 1)[31 - t];\n"
      "x -= wf_block_x() * 64;\nx[wf_block_x() * 32 + t] = y[wf_block_x() * 32 + t];\n";
  const Outcome result = run(body + "wf_sync_cluster();", pair);
  EXPECT_TRUE(result.report.clean()) << print(result.report);
  EXPECT_EQ(result.x[0], 131);
  EXPECT_EQ(result.x[95], 300);
  expect_issue(IssueKind::kClusterExit, kFirstLine + 2, 0, body, pair);
  expect_issue(IssueKind::kRace, kFirstLine + 1, kFirstLine,
               "s[t] = t; wf_sync_block();\n"
               "y[wf_block_x() * 32 + t] = wf_cluster_map(s, wf_cluster_rank() ^ 1)[t];\n"
               "wf_sync_cluster();",
               pair);
  expect_issue(IssueKind::kOutOfBounds, kFirstLine, 0, "x[t] = *wf_cluster_map(s, 2);", pair);
}

TEST(Launch, ClusterBarrierOrdersReadsOfSeveralBlocks) {
  const LaunchShape pair = {{4, 1, 1}, 32, 2, false, 4096};
  const auto body = [](const std::string& between) {
    return "s[t] = t + (s32)wf_block_x();\nwf_sync_cluster();\n"
           "const s32 v = wf_cluster_map(s, 0)[t];\n" +
           between +
           "\ns[t] = v;\nwf_sync_cluster();\nx -= wf_block_x() * 64;\n"
           "x[wf_block_x() * 32 + t] = wf_cluster_map(s, 1)[t];\nwf_sync_cluster();";
  };
  const Outcome result = run(body("wf_sync_cluster();"), pair);
  EXPECT_TRUE(result.report.clean()) << print(result.report);
  EXPECT_EQ(result.x[70], 6 + 2);
  expect_issue(IssueKind::kRace, kFirstLine + 4, kFirstLine + 2, body("wf_sync_block();"), pair);
}

TEST(Launch, SomethingWrongWithTheBuffersUse) {
  const auto module = compile(
      "#include \"weft_cuda.h\"\n"
      "WF_KERNEL(k, 32, 1)(float* x, float* y) {\n"
      "y[wf_thread() * 2] = x[wf_thread()];\nif (wf_thread() == 40) {\nx[0] = 1; "
      "}\n}\nWF_EXPORT(k)\n"
      "WF_KERNEL(w, 32, 1)(float* x) {\nx[wf_thread()] = 1; }\nWF_EXPORT(w)\n");
  ASSERT_NE(module, nullptr);
  DeviceArray<float> x(32), y(64);
  fill(x.span());
  Emulator emulator;
  const LaunchShape shape = {{1, 1, 1}, 32};
  Result<Report> report = emulator.launch(
      *module, "k", shape, {x.buffer("x", Buffer::Use::kRead), y.buffer("y", Buffer::Use::kWrite)},
      {x.data(), y.data()});
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->issues.size(), 1u) << print(*report);
  EXPECT_EQ(
      report->issues[0].message,
      "unwritten output: kernel.cu: 128 of the 256 bytes of y stay unwritten, the first at 4");
  report = emulator.launch(*module, "w", shape, {x.buffer("x", Buffer::Use::kRead)}, {x.data()});
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(has_issue(*report, IssueKind::kReadOnlyWrite)) << print(*report);
}

TEST(Launch, RefusesShapesAndArgumentsThatDoNotFit) {
  const auto module =
      compile("#include \"weft_cuda.h\"\nWF_KERNEL(k, 32, 1)(float* x) {\n}\nWF_EXPORT(k)\n");
  ASSERT_NE(module, nullptr);
  Emulator emulator;
  const auto error = [&](const std::string& kernel, const LaunchShape& shape,
                         const std::vector<Argument>& arguments) {
    const Result<Report> report = emulator.launch(*module, kernel, shape, {}, arguments);
    return report.ok() ? "no error" : report.error().message;
  };
  const float* null = nullptr;
  EXPECT_THAT(error("none", {}, {null}), HasSubstr("exports no kernel 'none'"));
  EXPECT_THAT(error("k", {}, {}), HasSubstr("takes 1 arguments, not 0"));
  EXPECT_THAT(error("k", {{1, 1, 1}, 48}, {null}), HasSubstr("multiple of 32"));
  EXPECT_THAT(error("k", {{0, 1, 1}, 32}, {null}), HasSubstr("cannot be launched"));
  EXPECT_THAT(error("k", {{3, 1, 1}, 32, 2}, {null}), HasSubstr("does not divide"));
  EXPECT_THAT(error("k", {{1, 1, 1}, 32, 1, false, size_t{1} << 20}, {null}),
              HasSubstr("shared memory"));
  EXPECT_THAT(error("k", {{1 << 20, 1, 1}, 1024, 1, true}, {null}), HasSubstr("at a time"));
}

TEST(Launch, MissingCompilerIsAMissingDevice) {
  CompileOptions options;
  options.compiler = "no-such-compiler";
  const auto module = Module::compile("", "k.cu", options);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().code, ErrorCode::kMissingDevice);
  EXPECT_THAT(module.error().message, HasSubstr("no-such-compiler"));
}

TEST(Launch, RefusedTextNamesItsLine) {
  const auto module = Module::compile("#include \"weft_cuda.h\"\nint x = ;\n", "k.cu");
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().code, ErrorCode::kInternal);
  EXPECT_THAT(module.error().message, HasSubstr("kernel.cu:2:"));
}

}  // namespace
}  // namespace weft::simt
