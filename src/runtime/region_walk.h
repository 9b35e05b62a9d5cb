#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/execution_context.h"

namespace weft {

/// One thread's way through the steps of a run. All threads of a region take the same way, each
/// with its own table of addresses: whatever could differ between them (a condition, a request to
/// stop) is read by the last thread to reach a barrier and handed to all.
///
/// Barriers are left out where no data can cross: a step that only the first thread executes waits
/// for nothing if nobody else has worked since the last barrier.
class RegionWalk {
 public:
  RegionWalk(ExecutionContext& context, int thread);
  /// All steps, unless the run is stopped.
  void walk();

 private:
  /// Who has worked since the last barrier.
  enum class Unsynced : uint8_t { kNobody, kFirstThread, kAnyThread };
  static constexpr uint32_t kFalse = 0, kTrue = 1, kStop = 2;

  bool run_steps(const std::vector<ExecutableStep>& steps);
  bool run_step(const ExecutableStep& step);
  bool run_timed(const ExecutableStep& step);
  bool dispatch(const ExecutableStep& step);
  bool run_launch(const ExecutableStep& step);
  void run_pieces(const ExecutableStep& step, size_t phase);
  static uint32_t wait_inside_phase(void* walk);
  bool run_launcher(const LaunchStep& launch);
  void fetch_carries(const LaunchStep& launch) const;
  bool run_host(const ExecutableStep& step);
  bool run_if(const ExecutableStep& step);
  bool run_loop(const ExecutableStep& step);
  bool run_iterations(const ExecutableStep& step, int64_t& iteration);

  bool stop_requested();
  /// Each returns false when the run is stopped.
  bool wait_for_all();
  bool wait_before_work_of_first_thread();
  bool wait_before_work_of_all();
  /// The condition's value for all threads, or kStop.
  uint32_t agree_on(int32_t condition);

  void enter_iteration(int32_t loop, int64_t iteration);
  bool copy_carry(int32_t from, int32_t to, int64_t bytes);
  void copy_share(int32_t from, int32_t to, int64_t bytes, bool shared);
  void worked(bool first_thread_only);
  bool is_first() const { return thread_ == 0; }
  void* address(int32_t buffer) const { return table_[static_cast<size_t>(buffer)]; }

  const Executable& executable_;
  const Program& program_;
  ExecutionContext::Region& region_;
  ExecutionContext::ThreadState& state_;
  const RunOptions& options_;
  std::span<void*> table_;  ///< of this thread, or the shared one where nothing moves
  const int64_t max_iterations_;
  KernelLauncher* const launcher_;  ///< null: kernels are code of this machine
  const int thread_;
  const int threads_;
  Unsynced unsynced_ = Unsynced::kNobody;
  bool alone_ = false;  ///< the launch at hand is the first thread's
  uint32_t round_ = 0;  ///< of shares in pieces
  bool stopped_inside_ = false;
  PhaseBarrier phase_barrier_{&wait_inside_phase, this};
  /// An iteration ended, or a marked step did not need its barrier: the next step of all threads
  /// has it, marked or not, because later steps rely on it.
  bool barrier_owed_ = false;
};

}  // namespace weft
