// Runs of programs made by hand: steps, loops, conditions, tensors of the caller, cancellation.

#include "runtime/execution_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/runtime/program_fixture.h"

namespace weft::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;

using Fixture = ProgramFixture;

/// Every test of this file runs on the caller's thread alone and on a pool of three.
class Run : public ::testing::TestWithParam<int> {
 protected:
  std::unique_ptr<ExecutionContext> context_of(const Fixture& fixture,
                                               int64_t max_iterations = 64) {
    auto executable = fixture.create();
    if (!executable.ok()) {
      ADD_FAILURE() << executable.error().message;
      return nullptr;
    }
    ContextOptions options;
    options.max_iterations = max_iterations;
    if (GetParam() > 1) {
      ThreadPool::Options pool;
      pool.threads = GetParam();
      options.pool = *ThreadPool::create(pool);
    }
    return std::move(*ExecutionContext::create(*executable, options));
  }
};

INSTANTIATE_TEST_SUITE_P(Threads, Run, ::testing::Values(1, 3),
                         [](const auto& threads) { return std::to_string(threads.param); });

/// y = 2x+1, reversed, and that twice.
Fixture chain(int64_t n) {
  Fixture f;
  const int32_t x = f.input("x", {n}), a = f.arena({n}), b = f.arena({n}), c = f.arena({n});
  const int32_t y = f.output("y", {n});
  const int32_t affine = f.kernel({double_and_one}), flip = f.kernel({reverse});
  f.step(Fixture::launch(affine, {x, a}, {n}));
  f.step(Fixture::launch(flip, {a, b}, {n}, {n}));
  f.step(Fixture::launch(affine, {b, c}, {n}));
  f.step(Fixture::launch(flip, {c, y}, {n}, {n}));
  return f;
}

TEST_P(Run, LaunchesSeeWhatOtherThreadsWrote) {
  auto context = context_of(chain(100));
  const std::vector<float> x = iota(100);
  std::vector<float> y(100);
  for (int repeat = 0; repeat < 200; ++repeat) {
    y.assign(100, -1);
    ASSERT_TRUE(context->run({{in(x, {100})}}, {{out(y, {100})}}).ok());
    for (size_t i = 0; i < 100; ++i) ASSERT_EQ(y[i], 4 * x[i] + 3);
  }
}

TEST_P(Run, PhasesOfAKernelAreSeparatedByABarrier) {
  Fixture f;
  const int32_t x = f.input("x", {90}), t = f.arena({90}), y = f.output("y", {90});
  const auto flip_rest = [](void* const* b, const int64_t* n, int64_t begin, int64_t end, void* s) {
    reverse(b + 1, n, begin, end, s);
  };
  const int32_t kernel = f.kernel({double_and_one, flip_rest});
  f.step(Fixture::launch(kernel, {x, t, y}, {90, 90}, {90}));
  auto context = context_of(f);
  const std::vector<float> in_x = iota(90);
  std::vector<float> out_y(90);
  ASSERT_TRUE(context->run({{in(in_x, {90})}}, {{out(out_y, {90})}}).ok());
  for (size_t i = 0; i < 90; ++i) EXPECT_EQ(out_y[i], 2 * in_x[89 - i] + 1);
}

TEST_P(Run, DenormalNumbersAreZero) {
  Fixture f;
  const int32_t x = f.input("x", {90}), y = f.output("y", {90});
  const auto multiply = [](void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
    const volatile float scale = elements(b[0])[0] < 1e-30f ? 1e30f : 1e-20f;
    for (int64_t i = begin; i < end; ++i) elements(b[1])[i] = elements(b[0])[i] * scale;
  };
  f.step(Fixture::launch(f.kernel({multiply}), {x, y}, {90}));
  auto context = context_of(f);
  const volatile float small = 1e-20f;
  for (const float value : {1e-20f, 1e-42f}) {
    const std::vector<float> in_x(90, value);
    std::vector<float> out_y(90, 1);
    ASSERT_TRUE(context->run({{in(in_x, {90})}}, {{out(out_y, {90})}}).ok());
    EXPECT_THAT(out_y, Each(0.0f));
  }
  EXPECT_GT(small * small, 0) << "the caller's thread computes as before";
}

/// Behind two buffers.
bool meet(void* const* b) {
  const auto& barrier = *static_cast<const PhaseBarrier*>(b[2]);
  return barrier.wait(barrier.context) != 0;
}

/// A thread without items meets the others as often as they do.
TEST_P(Run, ThreadsMeetInsideAPhase) {
  const auto rotate = [](void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
    for (int turn = 0; turn < 50; ++turn) {
      const float *from = elements(b[turn % 2]), other = 1;
      for (int64_t i = begin; i < end; ++i) elements(b[1 - turn % 2])[i] = from[1 - i] + other;
      if (!meet(b)) return;
    }
  };
  Fixture f;
  const int32_t y = f.output("y", {2}), t = f.arena({2});
  ProgramStep first = Fixture::launch(
      f.kernel({[](void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
        for (int64_t i = begin; i < end; ++i) elements(b[0])[i] = static_cast<float>(10 * i);
      }}),
      {y}, {2});
  ProgramStep step = Fixture::launch(f.kernel({rotate}), {y, t}, {2});
  step.launch.inner_barriers = true;
  f.step(first);
  step.barrier_before = true;
  f.step(step);
  auto context = context_of(f);
  std::vector<float> out_y(2);
  ASSERT_TRUE(context->run({}, {{out(out_y, {2})}}).ok());
  EXPECT_EQ(out_y, (std::vector<float>{50, 60}));
}

/// Shares in pieces, one behind the other without a barrier between: each item once.
TEST_P(Run, ThreadsTakeOverPiecesOfOthers) {
  const auto count = [](void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
    for (int64_t i = begin; i < end; ++i) elements(b[0])[i] += 1;
  };
  Fixture f;
  const int32_t x = f.output("x", {61}), y = f.output("y", {61});
  const int32_t zero =
      f.kernel({[](void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
        for (int64_t i = begin; i < end; ++i) elements(b[0])[i] = 0;
      }});
  const int32_t add = f.kernel({count});
  for (const int32_t b : {x, y}) f.step(Fixture::launch(zero, {b}, {61}));
  for (int turn = 0; turn < 20; ++turn) {
    for (const int32_t b : {x, y}) {
      ProgramStep step = Fixture::launch(add, {b}, {61});
      step.launch.pieces = 1 + 3 * (turn % 4);
      step.barrier_before = b == x;
      f.step(step);
    }
  }
  auto context = context_of(f);
  for (int run = 0; run < 50; ++run) {
    std::vector<float> out_x(61), out_y(61);
    ASSERT_TRUE(context->run({}, {{out(out_x, {61}), out(out_y, {61})}}).ok());
    EXPECT_THAT(out_x, Each(20.0f));
    EXPECT_THAT(out_y, Each(20.0f));
  }
}

TEST_P(Run, ScratchBelongsToTheThreadAndIsAligned) {
  Fixture f;
  const int32_t x = f.input("x", {64}), y = f.output("y", {64});
  const auto through_scratch = [](void* const* b, const int64_t*, int64_t begin, int64_t end,
                                  void* scratch) {
    float* mine = elements(scratch);
    const bool aligned = reinterpret_cast<uintptr_t>(scratch) % 64 == 0;
    for (int64_t i = begin; i < end; ++i) mine[i - begin] = elements(b[0])[i] + (aligned ? 5 : 0);
    for (int64_t i = begin; i < end; ++i) elements(b[1])[i] = mine[i - begin];
  };
  ProgramStep step = Fixture::launch(f.kernel({through_scratch}), {x, y}, {64});
  step.launch.scratch_bytes = 256;
  f.step(step);
  auto context = context_of(f);
  const std::vector<float> in_x = iota(64);
  std::vector<float> out_y(64);
  ASSERT_TRUE(context->run({{in(in_x, {64})}}, {{out(out_y, {64})}}).ok());
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(out_y[i], in_x[i] + 5);
}

TEST_P(Run, SerialStepsFollowEachOtherWithSharedOnesBetween) {
  Fixture f;
  const int32_t x = f.input("x", {30}), y = f.output("y", {30});
  const int32_t a = f.arena({30}), b = f.arena({30}), c = f.arena({30});
  const int32_t affine = f.kernel({double_and_one}), flip = f.kernel({reverse});
  f.step(Fixture::serial(Fixture::launch(affine, {x, a}, {30})));
  f.step(Fixture::serial(Fixture::launch(flip, {a, b}, {30}, {30})));
  f.step(Fixture::launch(flip, {b, c}, {30}, {30}));
  f.step(Fixture::copy(c, y));
  auto context = context_of(f);
  const std::vector<float> in_x = iota(30);
  std::vector<float> out_y(30);
  ASSERT_TRUE(context->run({{in(in_x, {30})}}, {{out(out_y, {30})}}).ok());
  for (size_t i = 0; i < 30; ++i) EXPECT_EQ(out_y[i], 2 * in_x[i] + 1);
}

TEST_P(Run, BarrierOfASerialStepHoldsForWhatFollows) {
  // The last step relies on the barrier of the one before it for what the first wrote.
  Fixture f;
  const int32_t x = f.input("x", {30}), y = f.output("y", {30}), other = f.arena({30});
  const int32_t a = f.arena({30});
  const auto slow = [](void* const* b, const int64_t* n, int64_t begin, int64_t end, void* s) {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    double_and_one(b, n, begin, end, s);
  };
  f.step(Fixture::serial(Fixture::launch(f.kernel({slow}), {x, a}, {30})));
  f.step(Fixture::serial(Fixture::launch(f.kernel({double_and_one}), {x, other}, {30})));
  ProgramStep last = Fixture::launch(f.kernel({reverse}), {a, y}, {30}, {30});
  last.barrier_before = false;
  f.step(last);
  auto context = context_of(f);
  const std::vector<float> in_x = iota(30);
  std::vector<float> out_y(30);
  ASSERT_TRUE(context->run({{in(in_x, {30})}}, {{out(out_y, {30})}}).ok());
  for (size_t i = 0; i < 30; ++i) EXPECT_EQ(out_y[i], 2 * in_x[29 - i] + 1);
}

/// h = 2h+1 + x[t] over the rows of x; ys[t] = h, from the last slot if `reverse_out`.
Fixture recurrence(int64_t steps, int64_t n, bool reverse_in, bool reverse_out) {
  Fixture f;
  const int32_t x = f.input("x", {steps, n}), h0 = f.input("h0", {n});
  const int32_t ys = f.output("ys", {steps, n}), h_end = f.output("h", {n});
  const int32_t loop = f.new_loop();
  const int32_t x_t = f.slice(x, loop, {n}, reverse_in);
  const int32_t y_t = f.slice(ys, loop, {n}, reverse_out);
  const auto [h, h_next] = f.carry(loop, {n});
  const int32_t t = f.arena({n});
  const int32_t affine = f.kernel({double_and_one}), plus = f.kernel({add});
  f.step(Fixture::scan(loop, steps, {{h, h0, h_end}},
                       {Fixture::launch(affine, {h, t}, {n}),
                        Fixture::launch(plus, {t, x_t, h_next}, {n}), Fixture::copy(h_next, y_t)}));
  return f;
}

TEST_P(Run, ScanCarriesStateAndStacksSlices) {
  for (const auto& [trips, forward] : {std::pair{5, true}, std::pair{4, false}}) {
    auto context = context_of(recurrence(trips, 6, !forward, !forward));
    const std::vector<float> x = iota(static_cast<size_t>(trips) * 6), h0 = iota(6, 100);
    std::vector<float> ys(x.size()), h(6);
    ASSERT_TRUE(
        context->run({{in(x, {trips, 6}), in(h0, {6})}}, {{out(ys, {trips, 6}), out(h, {6})}})
            .ok());
    for (size_t i = 0; i < 6; ++i) {
      float expected = h0[i];
      for (int t = 0; t < trips; ++t) {
        const auto row = static_cast<size_t>(forward ? t : trips - 1 - t) * 6;
        expected = 2 * expected + 1 + x[row + i];
        ASSERT_EQ(ys[row + i], expected) << "row " << t;
      }
      EXPECT_EQ(h[i], expected);
    }
  }
}

/// The state lies in the stack of results: the same as with a copy of it, also without iterations.
TEST_P(Run, ScanReadsItsStateFromTheStack) {
  for (const auto& [trips, reversed] :
       {std::pair{5, false}, std::pair{4, true}, std::pair{0, true}}) {
    Fixture f;
    const int32_t x = f.input("x", {trips, 6}), h0 = f.input("h0", {6});
    const int32_t ys = f.output("ys", {trips, 6}), h_end = f.output("h", {6});
    const int32_t loop = f.new_loop(), x_t = f.slice(x, loop, {6});
    const int32_t y_t = f.slice(ys, loop, {6}, reversed), h = f.stacked_carry(h0, y_t);
    const int32_t t = f.arena({6});
    const int32_t affine = f.kernel({double_and_one}), plus = f.kernel({add});
    f.step(Fixture::scan(
        loop, trips, {{h, -1, h_end}},
        {Fixture::launch(affine, {h, t}, {6}), Fixture::launch(plus, {t, x_t, y_t}, {6})}));
    auto context = context_of(f);
    const std::vector<float> in_x = iota(static_cast<size_t>(trips) * 6), in_h = iota(6, 100);
    std::vector<float> out_ys(in_x.size()), out_h(6);
    for (int run = 0; run < 2; ++run) {
      ASSERT_TRUE(context
                      ->run({{in(in_x, {trips, 6}), in(in_h, {6})}},
                            {{out(out_ys, {trips, 6}), out(out_h, {6})}})
                      .ok());
      for (size_t i = 0; i < 6; ++i) {
        float expected = in_h[i];
        for (int step = 0; step < trips; ++step) {
          expected = 2 * expected + 1 + in_x[static_cast<size_t>(step) * 6 + i];
          const int row = reversed ? trips - 1 - step : step;
          ASSERT_EQ(out_ys[static_cast<size_t>(row) * 6 + i], expected) << "row " << row;
        }
        EXPECT_EQ(out_h[i], expected);
      }
    }
  }
}

TEST_P(Run, ScanWithoutIterationsHandsOnTheInitialValue) {
  auto context = context_of(recurrence(0, 6, false, false));
  const std::vector<float> x, h0 = iota(6, 100);
  std::vector<float> ys, h(6);
  ASSERT_TRUE(context->run({{in(x, {0, 6}), in(h0, {6})}}, {{out(ys, {0, 6}), out(h, {6})}}).ok());
  EXPECT_EQ(h, h0);
}

TEST_P(Run, ScanInsideScan) {
  // s = 2s+1 + x[i][j] for all j, for all i; the inner loop starts from the outer one's state.
  Fixture f;
  const int32_t x = f.input("x", {3, 4, 2}), s0 = f.input("s0", {2}), y = f.output("y", {2});
  const int32_t outer = f.new_loop(), inner = f.new_loop();
  const int32_t x_i = f.slice(x, outer, {4, 2});
  const int32_t x_ij = f.slice(x_i, inner, {2});
  const auto [s, s_next] = f.carry(outer, {2});
  const auto [r, r_next] = f.carry(inner, {2});
  const int32_t t = f.arena({2});
  const int32_t affine = f.kernel({double_and_one}), plus = f.kernel({add});
  ProgramStep inner_scan = Fixture::scan(
      inner, 4, {{r, s, s_next}},
      {Fixture::launch(affine, {r, t}, {2}), Fixture::launch(plus, {t, x_ij, r_next}, {2})});
  f.step(Fixture::scan(outer, 3, {{s, s0, y}}, {inner_scan}));
  auto context = context_of(f);
  const std::vector<float> in_x = iota(24), in_s = {3, -4};
  std::vector<float> result(2);
  ASSERT_TRUE(context->run({{in(in_x, {3, 4, 2}), in(in_s, {2})}}, {{out(result, {2})}}).ok());
  for (size_t k = 0; k < 2; ++k) {
    float expected = in_s[k];
    for (size_t step = 0; step < 12; ++step) expected = 2 * expected + 1 + in_x[step * 2 + k];
    EXPECT_EQ(result[k], expected);
  }
}

/// while (x[0] < limit) x = 2x+1
Fixture doubling() {
  Fixture f;
  const int32_t x = f.input("x", {8}), limit = f.input("limit", {}), y = f.output("y", {8});
  const int32_t loop = f.new_loop(), holds = f.arena({}, DType::kBool);
  const auto [c, c_next] = f.carry(loop, {8});
  const auto less = [](void* const* b, const int64_t*, int64_t, int64_t, void*) {
    *elements<bool>(b[2]) = *elements(b[0]) < *elements(b[1]);
  };
  const int32_t test = f.kernel({less}), affine = f.kernel({double_and_one});
  f.step(Fixture::while_loop(loop, holds, {Fixture::launch(test, {c, limit, holds}, {1})},
                             {{c, x, y}}, {Fixture::launch(affine, {c, c_next}, {8})}));
  return f;
}

TEST_P(Run, WhileRunsUntilItsConditionFails) {
  auto context = context_of(doubling());
  const std::vector<float> x = iota(8), limit = {100};
  std::vector<float> y(8);
  for (int repeat = 0; repeat < 50; ++repeat) {
    ASSERT_TRUE(context->run({{in(x, {8}), in(limit, {})}}, {{out(y, {8})}}).ok());
    for (size_t i = 0; i < 8; ++i) ASSERT_EQ(y[i], 64 * x[i] + 63);  // six times
  }
  const std::vector<float> below = {1};
  ASSERT_TRUE(context->run({{in(x, {8}), in(below, {})}}, {{out(y, {8})}}).ok());
  EXPECT_EQ(y, x);
}

TEST_P(Run, WhileThatDoesNotEndIsAnError) {
  auto context = context_of(doubling(), /*max_iterations=*/10);
  const std::vector<float> x = iota(8), limit = {1e30f};
  std::vector<float> y(8);
  const Status status = context->run({{in(x, {8}), in(limit, {})}}, {{out(y, {8})}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("while 0"), HasSubstr("10 iterations")));
}

TEST_P(Run, IfTakesOneBranch) {
  Fixture f;
  const int32_t which = f.input("which", {}, DType::kBool), x = f.input("x", {40});
  const int32_t y = f.output("y", {40});
  const int32_t affine = f.kernel({double_and_one}), flip = f.kernel({reverse});
  f.step(Fixture::if_step(which, {Fixture::launch(affine, {x, y}, {40})},
                          {Fixture::launch(flip, {x, y}, {40}, {40})}));
  auto context = context_of(f);
  const std::vector<float> in_x = iota(40);
  std::vector<float> out_y(40);
  const Shape shape = {40};
  for (const bool value : {true, false, true}) {
    const InputRef inputs[] = {{DType::kBool, {}, &value}, in(in_x, shape)};
    ASSERT_TRUE(context->run(inputs, {{out(out_y, {40})}}).ok());
    for (size_t i = 0; i < 40; ++i) EXPECT_EQ(out_y[i], value ? 2 * in_x[i] + 1 : in_x[39 - i]);
  }
}

TEST_P(Run, StridedTensorsAreAccepted) {
  Fixture f;
  const int32_t x = f.input("x", {2, 3}), y = f.output("y", {2, 3});
  f.step(Fixture::launch(f.kernel({double_and_one}), {x, y}, {6}));
  auto context = context_of(f);
  // x is the transpose of a 3x2 matrix, read backwards along its second axis; y skips columns.
  const std::vector<float> store = {1, 2, 3, 4, 5, 6};
  std::vector<float> target(12, -1);
  const Shape shape = {2, 3};
  const int64_t x_strides[] = {1, -2}, y_strides[] = {6, 2};
  const InputRef input = {DType::kF32, shape, store.data() + 4, x_strides};
  const OutputRef output = {DType::kF32, shape, target.data(), y_strides};
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_TRUE(context->run({{input}}, {{output}}).ok());
    EXPECT_THAT(target, ElementsAre(11, -1, 7, -1, 3, -1, 13, -1, 9, -1, 5, -1));
  }
}

TEST_P(Run, TensorsOfAGpuAreRefusedByName) {
  Fixture f;
  const int32_t x = f.input("x", {3}), y = f.output("y", {3});
  f.step(Fixture::launch(f.kernel({double_and_one}), {x, y}, {3}));
  auto context = context_of(f);
  std::vector<float> given(3), target(3);
  const Shape shape = {3};
  InputRef input = {DType::kF32, shape, given.data()};
  OutputRef output = {DType::kF32, shape, target.data()};
  input.on_device = true;
  EXPECT_THAT(context->run({{input}}, {{output}}).error().message,
              HasSubstr("input 'x' is in a GPU's memory, and the model is compiled for the"));
  input.on_device = false;
  output.on_device = true;
  EXPECT_THAT(context->run({{input}}, {{output}}).error().message,
              HasSubstr("output 'y' is in a GPU's memory"));
}

TEST_P(Run, MisalignedTensorsAreAccepted) {
  Fixture f;
  const int32_t x = f.input("x", {3}), y = f.output("y", {3});
  const auto copy_if_aligned = [](void* const* b, const int64_t*, int64_t begin, int64_t end,
                                  void*) {
    const bool aligned =
        (reinterpret_cast<uintptr_t>(b[0]) | reinterpret_cast<uintptr_t>(b[1])) % alignof(float) ==
        0;
    for (int64_t i = begin; aligned && i < end; ++i) elements(b[1])[i] = elements(b[0])[i];
  };
  f.step(Fixture::launch(f.kernel({copy_if_aligned}), {x, y}, {3}));
  auto context = context_of(f);
  const std::vector<float> values = {1.5, 2.5, 3.5};
  alignas(4) char from[16] = {}, to[16] = {};
  std::memcpy(from + 1, values.data(), 12);
  const Shape shape = {3};
  ASSERT_TRUE(context
                  ->run({{InputRef{DType::kF32, shape, from + 1}}},
                        {{OutputRef{DType::kF32, shape, to + 1}}})
                  .ok());
  std::vector<float> result(3);
  std::memcpy(result.data(), to + 1, 12);
  EXPECT_EQ(result, values);
}

TEST_P(Run, AlignmentThatTheProgramNeedsIsProvided) {
  Fixture f;
  const int32_t x = f.input("x", {16}), y = f.output("y", {16});
  f.program.inputs[0].alignment = f.program.outputs[0].alignment = 64;
  const auto remainders = [](void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
    for (int64_t i = begin; i < end; ++i) {
      elements(b[1])[i] =
          elements(b[0])[i] + static_cast<float>(reinterpret_cast<uintptr_t>(b[0]) % 64 +
                                                 reinterpret_cast<uintptr_t>(b[1]) % 64);
    }
  };
  f.step(Fixture::launch(f.kernel({remainders}), {x, y}, {16}));
  auto context = context_of(f);
  alignas(64) float from[17], to[17];
  for (int i = 0; i < 17; ++i) from[i] = static_cast<float>(i);
  const Shape shape = {16};
  ASSERT_TRUE(context
                  ->run({{InputRef{DType::kF32, shape, from + 1}}},
                        {{OutputRef{DType::kF32, shape, to + 1}}})
                  .ok());
  EXPECT_EQ(to[1], 1);
  EXPECT_EQ(to[16], 16);
}

TEST_P(Run, OutputsMayBeTheInputs) {
  // flip reads x while y is written: in place it would mix old and new.
  Fixture f;
  const int32_t x = f.input("x", {50}), y = f.output("y", {50});
  f.step(Fixture::launch(f.kernel({reverse}), {x, y}, {50}, {50}));
  auto context = context_of(f);
  std::vector<float> state = iota(50);
  const std::vector<float> before = state;
  for (int repeat = 1; repeat <= 3; ++repeat) {
    ASSERT_TRUE(context->run({{in(state, {50})}}, {{out(state, {50})}}).ok());
    const std::vector<float> flipped(before.rbegin(), before.rend());
    EXPECT_EQ(state, repeat % 2 == 1 ? flipped : before);
  }
}

TEST_P(Run, PartialOverlapOfOutputAndInput) {
  Fixture f;
  const int32_t x = f.input("x", {6}), y = f.output("y", {6});
  f.step(Fixture::launch(f.kernel({reverse}), {x, y}, {6}, {6}));
  auto context = context_of(f);
  std::vector<float> store = {1, 2, 3, 4, 5, 6, 0, 0};
  const Shape shape = {6};
  ASSERT_TRUE(context
                  ->run({{InputRef{DType::kF32, shape, store.data()}}},
                        {{OutputRef{DType::kF32, shape, store.data() + 2}}})
                  .ok());
  EXPECT_THAT(store, ElementsAre(1, 2, 6, 5, 4, 3, 2, 1));
}

TEST_P(Run, OutputsThatOverlapEachOtherAreRefused) {
  Fixture f;
  const int32_t x = f.input("x", {4}), y = f.output("y", {4}), z = f.output("z", {4});
  f.step(Fixture::copy(x, y));
  f.step(Fixture::copy(x, z));
  auto context = context_of(f);
  const std::vector<float> in_x = iota(4);
  std::vector<float> store(7);
  const Shape shape = {4};
  const OutputRef outputs[] = {{DType::kF32, shape, store.data()},
                               {DType::kF32, shape, store.data() + 3}};
  const Status status = context->run({{in(in_x, shape)}}, outputs);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("outputs 'y' and 'z' overlap"));
}

TEST_P(Run, OutputStridesMustGiveEveryElementItsPlace) {
  Fixture f;
  const int32_t x = f.input("x", {2, 3}), y = f.output("y", {2, 3});
  f.step(Fixture::copy(x, y));
  auto context = context_of(f);
  const std::vector<float> in_x = iota(6);
  std::vector<float> store(12);
  const Shape shape = {2, 3};
  for (const auto& strides : {Shape{0, 1}, Shape{2, 1}, Shape{1, 1}, Shape{-2, 1}}) {
    const OutputRef output = {DType::kF32, shape, store.data() + 6, strides};
    const Status status = context->run({{in(in_x, shape)}}, {{output}});
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message, AllOf(HasSubstr("'y'"), HasSubstr("same place")));
  }
}

TEST_P(Run, MistakesInTensorsAreNamed) {
  Fixture f;
  const int32_t x = f.input("x", {2, 3}), y = f.output("y", {2, 3});
  f.step(Fixture::copy(x, y));
  auto context = context_of(f);
  const std::vector<float> in_x = iota(6);
  std::vector<float> out_y(6);
  const Shape shape = {2, 3}, other = {3, 2};
  const int64_t one_stride[] = {1};
  const int64_t far[] = {int64_t{1} << 62, 1};
  const auto message = [&](const InputRef& input, const OutputRef& output) {
    const Status status = context->run({{input}}, {{output}});
    EXPECT_FALSE(status.ok());
    return status.ok() ? std::string() : status.error().message;
  };
  const InputRef good_in = in(in_x, shape);
  const OutputRef good_out = out(out_y, shape);
  EXPECT_EQ(message(in(in_x, other), good_out), "input 'x': expected f32[2,3], got f32[3,2]");
  EXPECT_EQ(message({DType::kI64, shape, in_x.data()}, good_out),
            "input 'x': expected f32[2,3], got i64[2,3]");
  EXPECT_EQ(message(good_in, out(out_y, other)), "output 'y': expected f32[2,3], got f32[3,2]");
  EXPECT_EQ(message({DType::kF32, shape, nullptr}, good_out), "input 'x': no data");
  EXPECT_EQ(message({DType::kF32, shape, in_x.data(), one_stride}, good_out),
            "input 'x': 1 strides for 2 axes");
  EXPECT_EQ(message({DType::kF32, shape, in_x.data(), far}, good_out),
            "input 'x': the strides leave the address space");
  EXPECT_EQ(context->run({}, {{good_out}}).error().message, "expected 1 inputs, got 0");
  EXPECT_EQ(context->run({{good_in}}, {}).error().message, "expected 1 outputs, got 0");
  EXPECT_TRUE(context->run({{good_in}}, {{good_out}}).ok());
}

TEST_P(Run, NamesAreFoundOrListed) {
  const auto executable = *chain(4).create();
  EXPECT_EQ(*executable->input_index("x"), 0u);
  EXPECT_EQ(executable->output_index("z").error().message, "there is no output 'z'; there are 'y'");
}

/// A loop of nearly endless length whose body is shared or not, cancelled from inside.
void expect_cancellable(ExecutionContext& context, std::atomic<bool>& token) {
  RunOptions options;
  options.cancel = &token;
  std::vector<float> y(8);
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    token = true;
  });
  const Status status = context.run({}, {{out(y, {8})}}, options);
  canceller.join();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInterrupted);
}

TEST_P(Run, IsCancelledBetweenSteps) {
  const auto touch = [](void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
    for (int64_t i = begin; i < end; ++i) elements(b[0])[i] += 1;
  };
  for (const bool shared : {true, false}) {
    Fixture f;
    const int32_t y = f.output("y", {8}), loop = f.new_loop();
    const int32_t kernel = f.kernel({touch});
    ProgramStep step = Fixture::launch(kernel, {y}, {8});
    step.launch.serial = !shared;
    f.step(Fixture::scan(loop, int64_t{1} << 60, {}, {step}));
    f.step(Fixture::launch(kernel, {y}, {8}));
    auto context = context_of(f);
    std::atomic<bool> token{false};
    expect_cancellable(*context, token);
  }
}

TEST_P(Run, IsCancelledInsideAPhase) {
  const auto endless = [](void* const* b, const int64_t*, int64_t, int64_t, void*) {
    while (meet(b)) {
    }
  };
  Fixture f;
  const int32_t y = f.output("y", {8}), t = f.arena({8});
  ProgramStep step = Fixture::launch(f.kernel({endless}), {y, t}, {8});
  step.launch.inner_barriers = true;
  f.step(step);
  auto context = context_of(f);
  std::atomic<bool> token{false};
  expect_cancellable(*context, token);
}

TEST_P(Run, ThatIsCancelledBeforeItStartsDoesNothing) {
  Fixture f = chain(10);
  auto context = context_of(f);
  std::atomic<bool> token{false};
  token = true;
  RunOptions options;
  options.cancel = &token;
  const std::vector<float> x = iota(10);
  std::vector<float> y(10, -1);
  const Status status = context->run({{in(x, {10})}}, {{out(y, {10})}}, options);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInterrupted);
  EXPECT_THAT(y, Each(-1));
  token = false;
  EXPECT_TRUE(context->run({{in(x, {10})}}, {{out(y, {10})}}, options).ok());
  EXPECT_EQ(y[9], 43);
}

TEST_P(Run, StepsAreTimedWithTheResultUnchanged) {
  auto context = context_of(recurrence(5, 6, false, false));
  ASSERT_EQ(context->executable().steps().size(), 4u);
  EXPECT_EQ(context->executable().steps()[0].name, "scan 0");
  EXPECT_EQ(context->executable().steps()[1].depth, 1);
  std::vector<int64_t> times(4);
  RunOptions options;
  options.step_nanoseconds = times;
  const std::vector<float> x = iota(30), h0 = iota(6, 100);
  std::vector<float> ys(30), h(6);
  ASSERT_TRUE(
      context->run({{in(x, {5, 6}), in(h0, {6})}}, {{out(ys, {5, 6}), out(h, {6})}}, options).ok());
  EXPECT_THAT(times, Each(Gt(0)));
  EXPECT_GE(times[0], times[1] + times[2] + times[3]);
  float expected = h0[0];
  for (size_t t = 0; t < 5; ++t) expected = 2 * expected + 1 + x[t * 6];
  EXPECT_EQ(h[0], expected);
}

TEST_P(Run, ConstantsOfModelFilesAreAligned) {
  Fixture f;
  const int32_t c = f.constant<float>(DType::kF32, {3}, {1.5, -2, 3});
  const int32_t y = f.output("y", {3});
  f.step(Fixture::launch(f.kernel({double_and_one}), {c, y}, {3}));
  const auto file = std::make_shared<std::vector<std::byte>>(16);
  std::memcpy(file->data() + 1, f.program.constants[0].raw(), 12);
  f.program.constants[0] =
      HostTensor(DType::kF32, {3}, file, std::span<const std::byte>(*file).subspan(1, 12));
  auto context = context_of(f);
  std::vector<float> out_y(3);
  ASSERT_TRUE(context->run({}, {{out(out_y, {3})}}).ok());
  EXPECT_THAT(out_y, ElementsAre(4, -3, 7));
}

TEST_P(Run, LargeCopiesAreShared) {
  constexpr int64_t kElements = 100'003;
  Fixture f;
  const int32_t x = f.input("x", {kElements}), t = f.arena({kElements});
  const int32_t y = f.output("y", {kElements});
  ProgramStep copy = Fixture::copy(x, t);
  copy.host.serial = false;
  f.step(copy);
  f.step(Fixture::launch(f.kernel({reverse}), {t, y}, {kElements}, {kElements}));
  auto context = context_of(f);
  const std::vector<float> in_x = iota(kElements);
  std::vector<float> out_y(kElements);
  ASSERT_TRUE(context->run({{in(in_x, {kElements})}}, {{out(out_y, {kElements})}}).ok());
  EXPECT_EQ(out_y, std::vector<float>(in_x.rbegin(), in_x.rend()));
}

/// y = twice the running sums of x and one, scattered over what they are: two phases of all threads
/// behind a step of the first.
TEST_P(Run, HostStepsAreShared) {
  constexpr int64_t kRows = 40, kColumns = 64;
  Fixture f;
  const int32_t x = f.input("x", {kRows, kColumns}), y = f.output("y", {kRows, kColumns});
  const int32_t sums = f.arena({kRows, kColumns}), t = f.arena({kRows, kColumns});
  std::vector<int64_t> backwards(kRows);
  for (int64_t i = 0; i < kRows; ++i) backwards[static_cast<size_t>(i)] = kRows - 1 - i;
  const int32_t rows = f.constant<int64_t>(DType::kI64, {kRows, 1}, backwards);
  f.step(Fixture::serial(Fixture::launch(f.kernel({double_and_one}), {x, t}, {kRows * kColumns})));
  HostStep sum, scatter;
  sum.op = HostStep::Op::kCumulative;
  sum.operands = {t};
  sum.results = {sums};
  scatter.op = HostStep::Op::kScatterNd;
  scatter.operands = {sums, rows, sums};
  scatter.results = {y};
  scatter.combines = true;
  for (HostStep step : {sum, scatter}) {
    step.serial = false;
    f.step(Fixture::host(step));
  }
  auto context = context_of(f);
  const std::vector<float> in_x(kRows * kColumns, 1);
  std::vector<float> out_y(kRows * kColumns);
  ASSERT_TRUE(
      context->run({{in(in_x, {kRows, kColumns})}}, {{out(out_y, {kRows, kColumns})}}).ok());
  EXPECT_EQ(out_y, std::vector<float>(out_y.size(), 3 * (kRows + 1)));
}

TEST(Contexts, OfOneExecutableRunAtOnce) {
  const auto executable = *recurrence(40, 64, false, false).create();
  ThreadPool::Options pool_options;
  pool_options.threads = 3;
  const auto pool = *ThreadPool::create(pool_options);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&, caller] {
      ContextOptions options;
      options.pool = pool;
      auto context = std::move(*ExecutionContext::create(executable, options));
      const std::vector<float> x(40 * 64, 0.5f), h0(64, static_cast<float>(caller) / 8);
      std::vector<float> ys(40 * 64), h(64);
      float expected = h0[0];
      for (int t = 0; t < 40; ++t) expected = 2 * expected + 1 + 0.5f;
      for (int repeat = 0; repeat < 20; ++repeat) {
        const Status status =
            context->run({{in(x, {40, 64}), in(h0, {64})}}, {{out(ys, {40, 64}), out(h, {64})}});
        if (!status.ok() || h != std::vector<float>(64, expected)) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Contexts, RunOnceAtATime) {
  // The kernel of the outer run starts another run of its own context.
  struct Nested {
    ExecutionContext* context = nullptr;
    std::string message;
  };
  Fixture f;
  const int32_t nested = f.input("nested", {8}, DType::kU8), y = f.output("y", {8}, DType::kU8);
  const auto run_again = [](void* const* b, const int64_t*, int64_t, int64_t, void*) {
    Nested* outer = nullptr;
    std::memcpy(&outer, b[0], sizeof(void*));
    outer->message = outer->context->run({}, {}).error().message;
  };
  f.step(Fixture::launch(f.kernel({run_again}), {nested, y}, {1}));
  const auto executable = *f.create();
  auto context = std::move(*ExecutionContext::create(executable));
  Nested state{context.get(), {}};
  Nested* pointer = &state;
  uint8_t result[8] = {};
  const Shape shape = {8};
  ASSERT_TRUE(
      context
          ->run({{InputRef{DType::kU8, shape, &pointer}}}, {{OutputRef{DType::kU8, shape, result}}})
          .ok());
  EXPECT_THAT(state.message, HasSubstr("running already"));
}

}  // namespace
}  // namespace weft::testing
