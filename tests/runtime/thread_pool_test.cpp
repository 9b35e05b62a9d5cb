// The pool and the barrier of a region.

#include "runtime/thread_pool.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <thread>

#include "runtime/region_barrier.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_SANITIZER_SEES_NO_OPENMP 1
#endif
#endif

namespace weft {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::shared_ptr<ThreadPool> pool_of(int threads, bool pin = false) {
  ThreadPool::Options options;
  options.threads = threads;
  options.pin = pin;
  return *ThreadPool::create(options);
}

TEST(ThreadPool, RunsEveryThreadOnce) {
  for (const int threads : {1, 2, 5}) {
    const auto pool = pool_of(threads, /*pin=*/threads == 2);
    ASSERT_EQ(pool->threads(), threads);
    std::vector<int> calls(static_cast<size_t>(threads));
    for (int repeat = 1; repeat <= 300; ++repeat) {
      ASSERT_TRUE(pool->try_run(
          [](void* context, int thread) {
            ++(*static_cast<std::vector<int>*>(context))[static_cast<size_t>(thread)];
          },
          &calls));
      ASSERT_THAT(calls, Each(repeat));
    }
  }
}

#if !defined(WEFT_SANITIZER_SEES_NO_OPENMP)
/// The threads of GCC's OpenMP runtime, in the place of workers; inside of one of its regions there
/// are none to have.
TEST(ThreadPool, RunsOnTheThreadsOfOpenMp) {
  if (dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) GTEST_SKIP() << "no libgomp";
  ThreadPool::Options options;
  options.threads = 3;
  options.openmp = true;
  const auto pool = *ThreadPool::create(options);
  ASSERT_EQ(pool->threads(), 3);
  struct Calls {
    std::vector<int> of = std::vector<int>(3);
    std::shared_ptr<ThreadPool> pool, other;
    std::atomic<int> refused{0};
  } calls;
  const auto number = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_num_threads"));
  ASSERT_NE(number, nullptr);
  static int (*team_size)();
  team_size = number;
  for (int repeat = 1; repeat <= 100; ++repeat) {
    ASSERT_TRUE(pool->try_run(
        [](void* context, int thread) {
          EXPECT_EQ(team_size(), 3) << "OpenMP knows of the region";
          ++static_cast<Calls*>(context)->of[static_cast<size_t>(thread)];
        },
        &calls));
    ASSERT_THAT(calls.of, Each(repeat));
  }
  calls.other = *ThreadPool::create(options);
  ASSERT_TRUE(pool->try_run(
      [](void* context, int thread) {
        auto& c = *static_cast<Calls*>(context);
        if (thread == 0) c.refused += c.other->try_run([](void*, int) {}, nullptr) ? 0 : 1;
      },
      &calls));
  EXPECT_EQ(calls.refused, 1);
}
#endif

TEST(ThreadPool, WakesSleepingWorkers) {
  const auto pool = pool_of(2);
  std::atomic<int> calls{0};
  for (int repeat = 1; repeat <= 5; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_TRUE(pool->try_run(
        [](void* context, int) { ++*static_cast<std::atomic<int>*>(context); }, &calls));
    ASSERT_EQ(calls, 2 * repeat);
  }
}

TEST(ThreadPool, LeavesSleepingWorkersToRunsFarApart) {
  if (available_cores() < 2) GTEST_SKIP() << "one core";
  const auto pool = pool_of(2);
  std::atomic<int> calls{0};
  const auto run = [&] {
    return pool->try_run([](void* context, int) { ++*static_cast<std::atomic<int>*>(context); },
                         &calls, ThreadPool::Sleepers::kLeave);
  };
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_FALSE(run());
  }
  EXPECT_EQ(calls, 0);
  // One right behind the other.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool ran = false;
  while (!ran && std::chrono::steady_clock::now() < end) ran = run();
  EXPECT_TRUE(ran);
  EXPECT_EQ(calls, 2);
}

TEST(ThreadPool, WakesWorkersOnOtherCoresThanTheCallers) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2 || available_cores() < 2) GTEST_SKIP() << "one core";
  const auto pool = pool_of(2);
  int asked = 0;
  for (int core = 0; core < CPU_SETSIZE && asked < 2; ++core) {
    if (!CPU_ISSET(core, &before)) continue;
    ++asked;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    ASSERT_EQ(sched_setaffinity(0, sizeof own, &own), 0);
    cpu_set_t of_worker = before;
    // Until the worker slept when it was asked.
    for (int repeat = 0; repeat < 200 && CPU_ISSET(core, &of_worker); ++repeat) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ASSERT_TRUE(pool->try_run(
          [](void* context, int thread) {
            if (thread == 1)
              sched_getaffinity(0, sizeof(cpu_set_t), static_cast<cpu_set_t*>(context));
          },
          &of_worker));
    }
    EXPECT_FALSE(CPU_ISSET(core, &of_worker));
    EXPECT_EQ(CPU_COUNT(&of_worker), CPU_COUNT(&before) - 1);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(ThreadPool, IsTakenByOneRunAtATime) {
  const auto pool = pool_of(2);
  struct State {
    ThreadPool* pool;
    std::atomic<int> refused{0};
  } state{pool.get()};
  ASSERT_TRUE(pool->try_run(
      [](void* context, int) {
        auto& s = *static_cast<State*>(context);
        if (!s.pool->try_run([](void*, int) {}, nullptr)) ++s.refused;
      },
      &state));
  EXPECT_EQ(state.refused, 2);
  EXPECT_TRUE(pool->try_run([](void*, int) {}, nullptr));
}

TEST(ThreadPool, RefusesImpossibleSizes) {
  for (const int threads : {0, -1, 100'000}) {
    ThreadPool::Options options;
    options.threads = threads;
    const auto pool = ThreadPool::create(options);
    ASSERT_FALSE(pool.ok());
    EXPECT_THAT(pool.error().message, HasSubstr("between 1 and"));
  }
  EXPECT_GE(available_cores(), 1);
}

TEST(RegionBarrier, SeparatesGenerationsAndAgrees) {
  constexpr int kThreads = 4, kRounds = 500;
  struct State {
    RegionBarrier barrier;
    int turn = 0;  // written by one thread between barriers, read by all
    std::atomic<int> wrong{0};
  } state;
  const auto pool = pool_of(kThreads);
  state.barrier.reset(kThreads, pool->region_wait());
  ASSERT_TRUE(pool->try_run(
      [](void* context, int thread) {
        auto& s = *static_cast<State*>(context);
        for (int round = 0; round < kRounds; ++round) {
          if (thread == round % kThreads) s.turn = round;
          const uint32_t agreed =
              s.barrier.arrive([&] { return static_cast<uint32_t>(s.turn * 3); });
          if (agreed != static_cast<uint32_t>(round * 3) || s.turn != round) ++s.wrong;
          s.barrier.arrive([] { return 0u; });
        }
      },
      &state));
  EXPECT_EQ(state.wrong, 0);
}

/// No thread passes a barrier before all are there, whether few watch each other's words or many
/// count; one that asks to stop stops all at the same barrier, and the next region runs as ever.
TEST(RegionBarrier, AllGoOnTogetherOrStopTogether) {
  struct State {
    RegionBarrier barrier;
    std::atomic<int> at[6] = {};
    int threads = 0, stop_at = 0;
    std::atomic<int> wrong{0}, passed{0};
  };
  for (const int threads : {2, 3, 6}) {
    auto pool = *ThreadPool::create({.threads = threads});
    State state;
    state.threads = threads;
    for (const int stop_at : {7, 1, 8, 1000}) {
      state.barrier.reset(threads, pool->region_wait());
      for (std::atomic<int>& at : state.at) at = 0;
      state.passed = 0;
      state.stop_at = stop_at;
      const auto body = [](void* context, int thread) {
        State& s = *static_cast<State*>(context);
        for (int turn = 1; turn <= 500; ++turn) {
          s.at[thread] = turn;
          const bool asks = thread == turn % s.threads && turn == s.stop_at;
          if (!s.barrier.go_on(thread, asks)) {
            s.wrong += turn != s.stop_at ? 1 : 0;
            return;
          }
          s.wrong += turn == s.stop_at ? 1 : 0;
          for (int other = 0; other < s.threads; ++other) s.wrong += s.at[other] < turn ? 1 : 0;
        }
        ++s.passed;
      };
      ASSERT_TRUE(pool->try_run(body, &state));
      EXPECT_EQ(state.passed, stop_at > 500 ? threads : 0) << threads << " threads";
      EXPECT_EQ(state.wrong, 0) << threads << " threads";
    }
  }
}

TEST(RegionBarrier, SleepersAreWoken) {
  struct State {
    RegionBarrier barrier;
  } state;
  const auto pool = pool_of(2);
  state.barrier.reset(2, WaitPolicy{});  // sleeps at once
  ASSERT_TRUE(pool->try_run(
      [](void* context, int thread) {
        for (int round = 0; round < 20; ++round) {
          if (thread == round % 2) std::this_thread::sleep_for(std::chrono::microseconds(300));
          static_cast<State*>(context)->barrier.arrive([] { return 1u; });
        }
      },
      &state));
}

}  // namespace
}  // namespace weft
