// Runs of programs that better ones take the place of while they go on.

#include "runtime/switching_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/runtime/program_fixture.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;
using Fixture = ProgramFixture;

constexpr int64_t kN = 100;

/// A signal that threads of a test give each other once.
class Gate {
 public:
  void open() {
    open_.store(true);
    open_.notify_all();
  }
  void wait() const { open_.wait(false); }

 private:
  std::atomic<bool> open_{false};
};

/// y = 2(2x+1)+1 in two launches, or in one.
ModelPrograms twice(KernelEntry first, KernelEntry second) {
  Fixture f;
  const int32_t x = f.input("x", {kN}), t = f.arena({kN}), y = f.output("y", {kN});
  f.step(Fixture::launch(f.kernel({first}), {x, t}, {kN}));
  ProgramStep step = Fixture::launch(f.kernel({second}), {t, y}, {kN});
  step.barrier_before = true;
  f.step(step);
  return {*f.create()};
}
ModelPrograms slow() { return twice(double_and_one, double_and_one); }
void both(void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
  for (int64_t i = begin; i < end; ++i) elements(b[1])[i] = elements(b[0])[i] * 4 + 3;
}
ModelPrograms fast() {
  Fixture f;
  const int32_t x = f.input("x", {kN}), y = f.output("y", {kN});
  f.step(Fixture::launch(f.kernel({both}), {x, y}, {kN}));
  return {*f.create()};
}

/// Runs on 1, 2, …; what is wrong with the result.
std::string run_once(SwitchingContext& context) {
  const std::vector<float> x = iota(kN);
  std::vector<float> y(kN, -1);
  const Status status = context.run({{in(x, {kN})}}, {{out(y, {kN})}});
  if (!status.ok()) return status.error().message;
  for (size_t i = 0; i < kN; ++i) {
    if (y[i] != 4 * x[i] + 3) return "a wrong y";
  }
  return "";
}

std::unique_ptr<SwitchingContext> context_of(ModelPrograms first,
                                             std::shared_ptr<const LaterPrograms> later) {
  return std::move(*SwitchingContext::create(std::move(first), std::move(later), {}));
}

TEST(SwitchingContext, RunsAreOfTheBetterProgramsOnceTheseAreReady) {
  Gate gate;
  const auto later = *LaterPrograms::start([&](const auto&) {
    gate.wait();
    return Result<ModelPrograms>(fast());
  });
  auto context = context_of(slow(), later);
  EXPECT_EQ(run_once(*context), "");
  EXPECT_FALSE(context->switched());
  EXPECT_EQ(later->ready(), nullptr);
  gate.open();
  ASSERT_TRUE(later->wait().ok());
  EXPECT_EQ(run_once(*context), "");
  EXPECT_TRUE(context->switched());
}

TEST(SwitchingContext, AFailureLeavesTheFirstProgramsAndIsTold) {
  const auto later = *LaterPrograms::start(
      [](const auto&) { return Result<ModelPrograms>(unsupported("no such kernel")); });
  EXPECT_EQ(later->wait().error().message, "no such kernel");
  auto context = context_of(slow(), later);
  EXPECT_EQ(run_once(*context), "");
  EXPECT_FALSE(context->switched());
  EXPECT_EQ(later->failure()->code, ErrorCode::kUnsupported);
}

TEST(SwitchingContext, WhatIsThrownIsAFailure) {
  const auto later = *LaterPrograms::start(
      [](const auto&) -> Result<ModelPrograms> { throw std::runtime_error("a bug"); });
  EXPECT_EQ(later->wait().error().code, ErrorCode::kInternal);
  EXPECT_EQ(later->failure()->message, "a bug");
}

TEST(SwitchingContext, WhoeverDropsThemStopsTheWork) {
  std::atomic<bool> stopped{false};
  {
    const auto later = *LaterPrograms::start([&](std::atomic<bool>& stop) {
      while (!stop.load()) std::this_thread::yield();
      stopped = true;
      return Result<ModelPrograms>(Error{ErrorCode::kInterrupted, "stopped"});
    });
  }
  EXPECT_TRUE(stopped);
}

Gate* run_began = nullptr;
Gate* run_goes_on = nullptr;
/// Tells that a run is in its first launch, and stays there.
void wait_inside(void* const* b, const int64_t* n, int64_t begin, int64_t end, void* s) {
  run_began->open();
  run_goes_on->wait();
  double_and_one(b, n, begin, end, s);
}
std::atomic<int> finished_runs{0};
void count_and_double(void* const* b, const int64_t* n, int64_t begin, int64_t end, void* s) {
  ++finished_runs;
  double_and_one(b, n, begin, end, s);
}

/// The better programs become ready while the first run goes on.
class FirstRun : public ::testing::Test {
 protected:
  void SetUp() override {
    run_began = &began_;
    run_goes_on = &goes_on_;
    finished_runs = 0;
    later_ = *LaterPrograms::start([&](const auto&) {
      began_.wait();
      return Result<ModelPrograms>(fast());
    });
    context_ = context_of(twice(wait_inside, count_and_double), later_);
    opener_ = std::thread([&] {
      (void)later_->wait();
      goes_on_.open();
    });
  }
  void TearDown() override { opener_.join(); }

  Gate began_, goes_on_;
  std::shared_ptr<LaterPrograms> later_;
  std::unique_ptr<SwitchingContext> context_;
  std::thread opener_;
};

TEST_F(FirstRun, IsBegunAnewByThem) {
  EXPECT_EQ(run_once(*context_), "");
  EXPECT_TRUE(context_->switched());
  EXPECT_EQ(finished_runs, 0);
}

/// It would find its inputs changed.
TEST_F(FirstRun, EndsAsItBeganWhereOutputsLieInInputs) {
  std::vector<float> x = iota(kN);
  ASSERT_TRUE(context_->run({{in(x, {kN})}}, {{out(x, {kN})}}).ok());
  for (size_t i = 0; i < kN; ++i) EXPECT_EQ(x[i], 4 * static_cast<float>(i + 1) + 3);
  EXPECT_FALSE(context_->switched());
  EXPECT_EQ(finished_runs, 1);
}

TEST(SwitchingContext, ManyThreadsSwitchEachForItself) {
  Gate gate;
  const auto later = *LaterPrograms::start([&](const auto&) {
    gate.wait();
    return Result<ModelPrograms>(fast());
  });
  const ModelPrograms first = slow();
  std::array<std::string, 3> wrong;
  std::vector<std::thread> threads;
  for (std::string& message : wrong) {
    threads.emplace_back([&] {
      auto context = context_of(first, later);
      for (int run = 0; run < 300 || !context->switched(); ++run) {
        if (run == 100) gate.open();
        if (std::string m = run_once(*context); !m.empty()) message = m;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : wrong) EXPECT_EQ(message, "");
}

MakePrograms makes(ModelPrograms (*programs)()) {
  return [=](const auto&) { return Result<ModelPrograms>(programs()); };
}
Result<ModelPrograms> until_stopped(std::atomic<bool>& stop) {
  while (!stop.load()) std::this_thread::yield();
  return Error{ErrorCode::kInterrupted, "stopped"};
}

TEST(StartPrograms, BeginsWithWhatIsReadyFirst) {
  auto started = start_programs(makes(slow), until_stopped);
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(started->first[0]->steps().size(), 2U);
  ASSERT_NE(started->later, nullptr);
  EXPECT_FALSE(started->later->has_ended());
  started = start_programs(until_stopped, makes(fast));
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(started->first[0]->steps().size(), 1U);
  EXPECT_EQ(started->later, nullptr);
}

TEST(StartPrograms, OneFailureIsNone) {
  const MakePrograms fails = [](const auto&) {
    return Result<ModelPrograms>(unsupported("no such kernel"));
  };
  auto started = start_programs(makes(slow), fails);
  ASSERT_TRUE(started.ok());
  ASSERT_NE(started->later, nullptr);
  EXPECT_THAT(started->later->wait().error().message, HasSubstr("no such kernel"));
  started = start_programs(fails, makes(fast));
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(started->first[0]->steps().size(), 1U);
  EXPECT_EQ(start_programs(fails, fails).error().message, "no such kernel");
}

}  // namespace
}  // namespace weft::testing
