#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device_run.h"
#include "runtime/execution_context.h"

namespace weft {

/// The way through the steps of one run on a GPU: starts what each asks for on the run's stream,
/// and waits for the stream only where the host needs a value.
class DeviceWalk {
 public:
  /// `captured`: the steps are being recorded as a graph, so nothing may wait or be timed.
  DeviceWalk(DeviceRun& run, const RunOptions& options, bool captured);
  /// All steps. kInterrupted when the run is cancelled, kInvalidInput for a loop that does not end.
  Status walk();

 private:
  Status run_steps(const std::vector<ExecutableStep>& steps);
  Status dispatch(const ExecutableStep& step);
  Status launch(const LaunchStep& launch);
  Status run_host(const HostStep& step);
  Status run_if(const ExecutableStep& step);
  Status run_loop(const ExecutableStep& step);
  Status run_iterations(const ExecutableStep& step, int64_t& iteration);
  Status copy(int32_t from, int32_t to, int64_t bytes);
  Result<bool> read_condition(int32_t buffer);
  /// Operands of a host operation, with memory for them.
  std::vector<HostOperand> describe(const std::vector<int32_t>& buffers,
                                    std::vector<std::vector<std::byte>>& memory) const;
  void enter_iteration(int32_t loop, int64_t iteration);
  CudaAddress address(int32_t buffer) const {
    return reinterpret_cast<CudaAddress>(table_[static_cast<size_t>(buffer)]);
  }

  DeviceRun& run_;
  const Executable& executable_;
  const Program& program_;
  CudaStream& stream_;
  const RunOptions& options_;
  const bool captured_;
  std::vector<void*> table_;
  std::vector<int64_t> iterations_;
};

}  // namespace weft
