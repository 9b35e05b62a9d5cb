#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cuda/stream.h"
#include "runtime/device_program.h"
#include "runtime/executable.h"
#include "runtime/host_ops.h"
#include "runtime/memory.h"
#include "support/result.h"

namespace weft {

struct DeviceTimes;
struct RunOptions;

/// The memory and the stream of one run at a time of a GPU's program: what an ExecutionContext has
/// threads for on a CPU.
///
/// Inputs are copied to the device, outputs back, both on the run's stream; those that are on the
/// device already are copied there, since a graph holds the addresses of one set. A program without
/// host operations, conditions and loops of unknown length is captured at its first run, and later
/// runs are one CUDA graph; of others every step is started by itself. Host operations run on the
/// host: the stream is waited for, their operands come over and their results go back.
class DeviceRun {
 public:
  /// `executable` has a device.
  static Result<std::unique_ptr<DeviceRun>> create(std::shared_ptr<const Executable> executable,
                                                   int64_t max_iterations);

  /// `inputs` and `outputs` are dense tensors in the program's order; null where there are no
  /// elements. They are in host memory where inputs_there and outputs_there say no more. An error
  /// of a kernel names it, or, of a graph, says how to find it.
  Status run(std::span<void* const> inputs, std::span<void* const> outputs,
             const RunOptions& options);
  /// Which of the next run's tensors are in the device's memory.
  std::vector<bool>& inputs_there() { return inputs_there_; }
  std::vector<bool>& outputs_there() { return outputs_there_; }

 private:
  friend class DeviceWalk;
  friend Result<DeviceTimes> time_on_device(DeviceRun& run);

  DeviceRun(std::shared_ptr<const Executable> executable, CudaStream stream)
      : executable_(std::move(executable)), stream_(std::move(stream)) {}
  Status allocate();
  void* device_address(const DeviceProgram& code, const ProgramBuffer& buffer,
                       const std::vector<int64_t>& iterations) const;
  CudaAddress counter_of(int32_t kernel) const;
  Status prepare_library_calls();
  Status work(const RunOptions& options);
  Status capture(const RunOptions& options);

  std::shared_ptr<const Executable> executable_;
  CudaStream stream_;
  CudaMemory memory_;                                      ///< arena, inputs and outputs
  CudaMemory counters_;                                    ///< by kernel: of its grid barrier
  CudaMemory workspace_;                                   ///< of library calls
  std::vector<std::unique_ptr<LibraryRoutine>> routines_;  ///< by kernel: of library calls
  std::vector<void*> start_table_;  ///< device addresses of the buffers at the start of a run
  std::vector<CudaAddress> input_, output_;
  std::vector<bool> inputs_there_, outputs_there_;
  std::optional<CudaGraph> graph_;
  bool capturable_ = false;
  int64_t max_iterations_ = 0;
  Memory host_scratch_;
  std::vector<std::vector<std::byte>> host_operands_, host_results_;
};

}  // namespace weft
