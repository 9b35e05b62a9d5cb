#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/device_run.h"
#include "runtime/executable.h"
#include "runtime/host_ops.h"
#include "runtime/kernel_launcher.h"
#include "runtime/memory.h"
#include "runtime/region_barrier.h"
#include "runtime/tensor_ref.h"
#include "runtime/thread_pool.h"
#include "runtime/work_shares.h"
#include "support/result.h"

namespace weft {

struct ContextOptions {
  /// Runs use it when it is free; null: the caller's thread alone.
  std::shared_ptr<ThreadPool> pool;
  /// Runs the kernels, where they are no code of this machine; `pool` is then not used.
  std::shared_ptr<KernelLauncher> launcher;
  /// A while-loop that runs longer is an error.
  int64_t max_iterations = int64_t{1} << 32;
};

struct RunOptions {
  /// Once true, the run stops between steps; set from any thread, also from a signal handler.
  const std::atomic<bool>* cancel = nullptr;
  /// When not empty (one element per Executable::steps()): nanoseconds of each step are added.
  /// Every step is then set apart by barriers, so the sum is more than an unobserved run takes.
  std::span<int64_t> step_nanoseconds = {};
  /// When not null, for a GPU's program: nanoseconds that the device took between the copies of
  /// inputs and outputs.
  int64_t* device_nanoseconds = nullptr;
};

/// The memory of one run at a time: arena, per-thread scratch and pointer tables. All of it is
/// allocated by create(), except for copies of tensors whose strides, alignment or overlap need
/// one: the first run that needs a copy allocates it and later runs reuse it.
class ExecutionContext {
 public:
  static Result<std::unique_ptr<ExecutionContext>> create(
      std::shared_ptr<const Executable> executable, ContextOptions options = {});
  ~ExecutionContext();

  const Executable& executable() const { return *executable_; }
  /// Of a run that finds the pool free.
  int threads() const { return static_cast<int>(threads_.size()); }

  /// Runs the program on the caller's tensors, in the order of Program::inputs and outputs. A seed
  /// of random numbers may be left out: it is drawn (run_seed.h).
  ///
  /// Dense, aligned tensors are used in place. Outputs may overlap inputs (a state passed back into
  /// itself) but not each other. Errors: kInvalidInput names the tensor that has another type or
  /// shape than the program's; kInterrupted leaves the outputs unspecified. One run at a time.
  Status run(std::span<const InputRef> inputs, std::span<const OutputRef> outputs,
             const RunOptions& options = {});

  /// Of a GPU's program, for measurements; null of a CPU's.
  DeviceRun* device_run() const { return device_.get(); }

  ExecutionContext(const ExecutionContext&) = delete;
  ExecutionContext& operator=(const ExecutionContext&) = delete;

 private:
  friend class RegionWalk;

  /// What one thread of the region owns; other threads write nothing of it.
  struct alignas(64) ThreadState {
    std::vector<void*> table;         ///< address of every buffer, now
    std::vector<int64_t> iterations;  ///< of every loop, now
    std::vector<void*> launch_table;  ///< addresses for the kernel being called
    std::vector<HostOperand> host_operands, host_results;
    std::byte* scratch = nullptr;
  };

  /// What the threads of one region share.
  struct Region {
    int threads = 1;
    const RunOptions* options = nullptr;
    std::atomic<bool> stop{false};
    bool too_many_iterations = false;
    std::optional<Error> launch_error;  ///< of the first thread
    int32_t endless_step = 0;
    RegionBarrier barrier;
    WorkShares shares{0};
  };

  ExecutionContext(std::shared_ptr<const Executable> executable, ContextOptions options);
  Status allocate();
  void allocate_bindings();
  std::span<const InputRef> with_seed(std::span<const InputRef> inputs);
  Status run_exclusively(std::span<const InputRef> inputs, std::span<const OutputRef> outputs,
                         const RunOptions& options);
  Status bind(std::span<const InputRef> inputs, std::span<const OutputRef> outputs);
  Status bind_inputs(std::span<const InputRef> inputs);
  Status bind_outputs(std::span<const OutputRef> outputs);
  void bind_buffers();
  void deliver(std::span<const OutputRef> outputs);
  Status outcome() const;

  std::shared_ptr<const Executable> executable_;
  ContextOptions options_;
  std::unique_ptr<DeviceRun> device_;  ///< of a GPU's program, which uses no arena or thread here
  Memory arena_, scratch_;
  std::vector<ThreadState> threads_;
  std::vector<void*> start_table_;  ///< addresses at the start of a run
  std::vector<int32_t> rebound_;    ///< buffers whose start address depends on the caller's tensors
  std::vector<void*> input_data_, output_data_;  ///< what the kernels see
  std::vector<ByteRange> input_ranges_, output_ranges_;
  std::vector<Memory> input_copies_, output_copies_;
  std::vector<InputRef> seeded_inputs_;  ///< the caller's and the seed
  uint64_t seed_ = 0;
  std::vector<bool> output_delivered_;  ///< this run writes the output to its copy first
  Region region_;
  std::atomic<bool> running_{false};
};

}  // namespace weft
