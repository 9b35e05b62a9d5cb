#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/event_word.h"
#include "runtime/openmp_team.h"
#include "support/result.h"

namespace weft {

/// Threads that run one region at a time, together with the thread that asks for it. Workers watch
/// for the next region for a while (a fork and join then costs well under a microsecond), and sleep
/// after that.
///
/// Owned by whoever passes it on; runs that find it taken go on alone, so nesting and sharing
/// between executables are safe.
class ThreadPool {
 public:
  struct Options {
    int threads = 1;   ///< of a region, the caller's included
    bool pin = false;  ///< each worker to one core of the process (the caller's thread stays free)
    /// The threads of the process's OpenMP runtime in the place of own ones, where it has one.
    bool openmp = false;
  };
  /// kInvalidInput for a thread count outside 1..1024 or when the system refuses the threads.
  static Result<std::shared_ptr<ThreadPool>> create(const Options& options);

  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  /// For waits inside a region.
  const WaitPolicy& region_wait() const { return region_wait_; }

  /// Of a region that ends on one thread before a sleeping worker is awake.
  enum class Sleepers : uint8_t { kWake, kLeave };
  /// Calls body(context, t) for every t in 0..threads()-1 at once, t = 0 on this thread, and
  /// returns when all have returned. False, without a call, when another run has the pool, and with
  /// kLeave where workers sleep: unless runs follow each other so closely that workers, once awake,
  /// would stay so.
  using Body = void (*)(void* context, int thread);
  bool try_run(Body body, void* context, Sleepers sleepers = Sleepers::kWake);

 private:
  ThreadPool() = default;
  Status start(const Options& options);
  void keep_off_callers_core();
  bool runs_follow_closely();
  void work(int thread);

  int threads_ = 1;
  const OpenMpTeam* team_ = nullptr;  ///< runs regions in the place of workers
  std::vector<std::thread> workers_;
  std::vector<int> cores_;  ///< that workers may be moved among; empty: where they are started
  int avoided_core_ = -1;
  WaitPolicy idle_wait_, region_wait_;
  Body body_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  std::chrono::steady_clock::time_point left_;  ///< when sleepers were left to sleep last
  int close_ = 0;                               ///< such runs, each soon after the one before
  std::atomic<bool> taken_{false};
  EventWord started_;   ///< counts regions
  EventWord finished_;  ///< the last region that all workers have left
  alignas(64) std::atomic<int> running_{0};
};

/// Cores that this process may use: its affinity mask, bounded by the quota of its control group.
int available_cores();

}  // namespace weft
