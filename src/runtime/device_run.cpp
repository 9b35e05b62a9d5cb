#include "runtime/device_run.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/buffer_address.h"
#include "runtime/device_walk.h"
#include "runtime/execution_context.h"

namespace weft {
namespace {

using Kind = ProgramBuffer::Kind;

constexpr int64_t kTensorAlignment = 256;  ///< bytes, as cuMemAlloc gives
/// More than any device has; keeps sums of sizes that verify_program allows from overflow.
constexpr int64_t kMostBytes = int64_t{1} << 50;
/// Apart, so that blocks that wait at one kernel's barrier do not slow another's.
constexpr int64_t kCounterBytes = 128;
/// A graph of more steps costs more to make than its replay saves.
constexpr int64_t kMostCapturedSteps = 1 << 15;

int64_t rounded(int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

/// Device operations that the steps ask for, or nothing when one of them waits for the host.
std::optional<int64_t> captured_steps(const std::vector<ProgramStep>& steps) {
  int64_t count = 0;
  for (const ProgramStep& step : steps) {
    int64_t more = 1;
    switch (step.kind) {
      case ProgramStep::Kind::kLaunch:
        break;
      case ProgramStep::Kind::kHost:
        if (step.host.op != HostStep::Op::kCopy) return std::nullopt;
        break;
      case ProgramStep::Kind::kIf:
        return std::nullopt;
      case ProgramStep::Kind::kLoop: {
        const LoopStep& loop = *step.loop_step;
        if (loop.condition >= 0) return std::nullopt;
        const std::optional<int64_t> body = captured_steps(loop.body);
        if (!body.has_value() || loop.trips > kMostCapturedSteps) return std::nullopt;
        more = *body * loop.trips + 2 * static_cast<int64_t>(loop.carries.size());
        break;
      }
    }
    count += more;
    if (count > kMostCapturedSteps) return std::nullopt;
  }
  return count;
}

}  // namespace

Result<std::unique_ptr<DeviceRun>> DeviceRun::create(std::shared_ptr<const Executable> executable,
                                                     int64_t max_iterations) {
  WEFT_ASSIGN_OR_RETURN(CudaStream stream, CudaStream::create(executable->device()->device()));
  std::unique_ptr<DeviceRun> run(new DeviceRun(std::move(executable), std::move(stream)));
  run->max_iterations_ = max_iterations;
  WEFT_RETURN_IF_ERROR(run->allocate());
  return run;
}

Status DeviceRun::allocate() {
  const Program& program = executable_->program();
  const std::shared_ptr<const CudaDevice>& device = executable_->device()->device();
  int64_t bytes = rounded(program.arena_bytes);
  std::vector<int64_t> offsets;
  for (const auto* list : {&program.inputs, &program.outputs}) {
    for (const ProgramIo& io : *list) {
      offsets.push_back(bytes);
      bytes += rounded(*checked_byte_size(io.dtype, io.shape));
      if (bytes > kMostBytes) return invalid_input("the program's tensors fit no device");
    }
  }
  WEFT_ASSIGN_OR_RETURN(memory_, CudaMemory::allocate(device, bytes));
  for (size_t i = 0; i < offsets.size(); ++i) {
    auto& list = i < program.inputs.size() ? input_ : output_;
    list.push_back(memory_.address() + static_cast<CudaAddress>(offsets[i]));
  }
  inputs_there_.resize(program.inputs.size());
  outputs_there_.resize(program.outputs.size());
  const bool has_barriers = std::ranges::any_of(
      program.kernels, [](const KernelImage& kernel) { return kernel.device.cooperative; });
  if (has_barriers) {
    const int64_t size = kCounterBytes * static_cast<int64_t>(program.kernels.size());
    WEFT_ASSIGN_OR_RETURN(counters_, CudaMemory::allocate(device, size));
    WEFT_RETURN_IF_ERROR(stream_.fill_zero(counters_.address(), size));
  }
  WEFT_RETURN_IF_ERROR(prepare_library_calls());
  WEFT_ASSIGN_OR_RETURN(host_scratch_, Memory::allocate(executable_->scratch_bytes_per_thread(),
                                                        "scratch of host operations"));
  const std::vector<int64_t> iterations(static_cast<size_t>(program.loop_count));
  start_table_.resize(program.buffers.size());
  for (int32_t b : executable_->loops().order) {
    const ProgramBuffer& buffer = program.buffers[static_cast<size_t>(b)];
    start_table_[static_cast<size_t>(b)] =
        device_address(*executable_->device(), buffer, iterations);
  }
  capturable_ = captured_steps(program.steps).has_value();
  return {};
}

Status DeviceRun::prepare_library_calls() {
  const DeviceProgram& code = *executable_->device();
  WEFT_RETURN_IF_ERROR(code.device()->enter());
  routines_.resize(executable_->program().kernels.size());
  VendorLibraries libraries;
  int64_t most = 0;
  for (size_t k = 0; k < routines_.size(); ++k) {
    const auto number = static_cast<int32_t>(k);
    if (!code.library_call(number)) continue;
    WEFT_ASSIGN_OR_RETURN(routines_[k],
                          libraries.prepare(*code.library_call(number), code.kernel(number).name));
    most = std::max(most, routines_[k]->workspace_bytes());
  }
  if (most > 0) {
    WEFT_ASSIGN_OR_RETURN(workspace_, CudaMemory::allocate(code.device(), most));
  }
  return {};
}

void* DeviceRun::device_address(const DeviceProgram& code, const ProgramBuffer& buffer,
                                const std::vector<int64_t>& iterations) const {
  const auto pointer = [](CudaAddress address) { return reinterpret_cast<void*>(address); };
  switch (buffer.kind) {
    case Kind::kInput:
      return pointer(input_[static_cast<size_t>(buffer.index)]);
    case Kind::kOutput:
      return pointer(output_[static_cast<size_t>(buffer.index)]);
    case Kind::kConstant:
      return pointer(code.constant(buffer.index));
    case Kind::kArena:
      return pointer(memory_.address() + static_cast<CudaAddress>(buffer.offset));
    default:
      return moving_address(buffer, executable_->loops().trips, iterations, start_table_);
  }
}

CudaAddress DeviceRun::counter_of(int32_t kernel) const {
  return counters_.address() + static_cast<CudaAddress>(kernel * kCounterBytes);
}

Status DeviceRun::run(std::span<void* const> inputs, std::span<void* const> outputs,
                      const RunOptions& options) {
  const Program& program = executable_->program();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t bytes = *checked_byte_size(program.inputs[i].dtype, program.inputs[i].shape);
    if (inputs_there_[i]) {
      const auto from = reinterpret_cast<CudaAddress>(inputs[i]);
      WEFT_RETURN_IF_ERROR(stream_.copy_on_device(input_[i], from, bytes));
    } else {
      WEFT_RETURN_IF_ERROR(stream_.copy_to_device(
          input_[i], {static_cast<const std::byte*>(inputs[i]), static_cast<size_t>(bytes)}));
    }
  }
  if (options.device_nanoseconds == nullptr) {
    WEFT_RETURN_IF_ERROR(work(options));
  } else {
    // Capturing is no part of what is measured.
    if (capturable_ && !graph_) WEFT_RETURN_IF_ERROR(capture(options));
    WEFT_ASSIGN_OR_RETURN(const double us,
                          stream_.time_us([&](CudaStream&) { return work(options); }));
    *options.device_nanoseconds = static_cast<int64_t>(us * 1e3);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const int64_t bytes = *checked_byte_size(program.outputs[o].dtype, program.outputs[o].shape);
    if (outputs_there_[o]) {
      const auto to = reinterpret_cast<CudaAddress>(outputs[o]);
      WEFT_RETURN_IF_ERROR(stream_.copy_on_device(to, output_[o], bytes));
    } else {
      WEFT_RETURN_IF_ERROR(stream_.copy_to_host(
          {static_cast<std::byte*>(outputs[o]), static_cast<size_t>(bytes)}, output_[o]));
    }
  }
  return stream_.synchronize();
}

Status DeviceRun::work(const RunOptions& options) {
  if (!capturable_ || !options.step_nanoseconds.empty()) {
    return DeviceWalk(*this, options, /*captured=*/false).walk();
  }
  if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) {
    return Error{ErrorCode::kInterrupted, "the run was cancelled"};
  }
  if (!graph_) WEFT_RETURN_IF_ERROR(capture(options));
  return stream_.launch(*graph_);
}

Status DeviceRun::capture(const RunOptions& options) {
  WEFT_ASSIGN_OR_RETURN(graph_, stream_.capture([&](CudaStream&) {
    return DeviceWalk(*this, options, /*captured=*/true).walk();
  }));
  return {};
}

}  // namespace weft
