#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device_program.h"
#include "runtime/kernel_image.h"
#include "runtime/program.h"
#include "runtime/verify_program.h"
#include "support/result.h"

namespace weft {

/// A step with what its execution needs looked up; mirrors the tree of ProgramSteps.
struct ExecutableStep {
  const ProgramStep* source = nullptr;
  int32_t id = 0;  ///< index into Executable::steps()
  /// Host operations and launches without work for two threads.
  bool on_first_thread = false;
  std::vector<KernelEntry> phases;        ///< launch
  std::vector<ExecutableStep> condition;  ///< while-loop
  std::vector<ExecutableStep> body;       ///< loop; the `then` branch
  std::vector<ExecutableStep> otherwise;  ///< the `else` branch
};

/// One line of a profile.
struct StepInfo {
  std::string name;
  ProgramStep::Kind kind = ProgramStep::Kind::kLaunch;
  int32_t kernel = -1;  ///< of a launch
  int32_t depth = 0;    ///< loops and ifs around it
};

/// A verified program with its kernels in executable memory. Immutable: any number of
/// ExecutionContexts may run one at the same time.
class Executable {
 public:
  /// Verifies the program and loads its kernels: those of a GPU's on the device that
  /// open_cuda_device finds.
  static Result<std::shared_ptr<const Executable>> create(Program program);
  /// A GPU's program, on `device`; errors also as those of DeviceProgram::load.
  static Result<std::shared_ptr<const Executable>> create(Program program,
                                                          std::shared_ptr<const CudaDevice> device);
  /// With kernels that are loaded already, numbered as in Program::kernels.
  static Result<std::shared_ptr<const Executable>> create(
      Program program, std::shared_ptr<const LoadedKernels> kernels);

  const Program& program() const { return program_; }
  const LoopFacts& loops() const { return loops_; }
  /// Code and constants on a GPU; null for a CPU's program.
  const std::shared_ptr<const DeviceProgram>& device() const { return device_; }
  const std::vector<ExecutableStep>& root() const { return root_; }
  /// All steps in the order of the text, those inside loops and ifs after their owner.
  const std::vector<StepInfo>& steps() const { return steps_; }

  /// Whether any step has work for more than one thread.
  bool is_parallel() const { return parallel_; }
  int64_t scratch_bytes_per_thread() const { return scratch_bytes_; }
  size_t most_launch_buffers() const { return most_launch_buffers_; }

  /// Position of an input or output; the error lists the names there are.
  Result<size_t> input_index(std::string_view name) const;
  Result<size_t> output_index(std::string_view name) const;

  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

 private:
  Executable() = default;
  static Result<std::shared_ptr<Executable>> make(Program program);
  Status resolve(const std::vector<ProgramStep>& from, int32_t depth,
                 std::vector<ExecutableStep>& to);
  Status resolve_launch(const LaunchStep& launch, ExecutableStep& to);

  Program program_;
  std::shared_ptr<const LoadedKernels> kernels_;  ///< null for a GPU's program
  std::shared_ptr<const DeviceProgram> device_;
  LoopFacts loops_;
  std::vector<ExecutableStep> root_;
  std::vector<StepInfo> steps_;
  bool parallel_ = false;
  int64_t scratch_bytes_ = 0;
  size_t most_launch_buffers_ = 0;
};

}  // namespace weft
