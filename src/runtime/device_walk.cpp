#include "runtime/device_walk.h"

#include <string>

#include "runtime/buffer_address.h"

namespace weft {

DeviceWalk::DeviceWalk(DeviceRun& run, const RunOptions& options, bool captured)
    : run_(run),
      executable_(*run.executable_),
      program_(run.executable_->program()),
      stream_(run.stream_),
      options_(options),
      captured_(captured),
      table_(run.start_table_),
      iterations_(static_cast<size_t>(program_.loop_count)) {}

Status DeviceWalk::walk() { return run_steps(executable_.root()); }

Status DeviceWalk::run_steps(const std::vector<ExecutableStep>& steps) {
  for (const ExecutableStep& step : steps) {
    if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed)) {
      return Error{ErrorCode::kInterrupted, "the run was cancelled"};
    }
    if (captured_ || options_.step_nanoseconds.empty()) {
      WEFT_RETURN_IF_ERROR(dispatch(step));
      continue;
    }
    WEFT_ASSIGN_OR_RETURN(const double us,
                          stream_.time_us([&](CudaStream&) { return dispatch(step); }));
    options_.step_nanoseconds[static_cast<size_t>(step.id)] += static_cast<int64_t>(us * 1e3);
  }
  return {};
}

Status DeviceWalk::dispatch(const ExecutableStep& step) {
  switch (step.source->kind) {
    case ProgramStep::Kind::kLaunch:
      return launch(step.source->launch);
    case ProgramStep::Kind::kHost:
      return run_host(step.source->host);
    case ProgramStep::Kind::kIf:
      return run_if(step);
    case ProgramStep::Kind::kLoop:
      return run_loop(step);
  }
  return {};
}

Status DeviceWalk::launch(const LaunchStep& launch) {
  const DeviceLaunch& how = program_.kernels[static_cast<size_t>(launch.kernel)].device;
  std::vector<CudaAddress> addresses;
  for (const int32_t b : launch.buffers) addresses.push_back(address(b));
  if (LibraryRoutine* routine = run_.routines_[static_cast<size_t>(launch.kernel)].get())
    return routine->run(stream_, addresses, run_.workspace_.address());
  if (how.cooperative) {
    addresses.push_back(run_.counter_of(launch.kernel));
  }
  std::vector<int64_t> numbers = launch.arguments;
  // Pointers of the buffers, the numbers, then the barrier's counter.
  std::vector<void*> arguments;
  for (size_t b = 0; b < launch.buffers.size(); ++b) arguments.push_back(&addresses[b]);
  for (int64_t& number : numbers) arguments.push_back(&number);
  if (how.cooperative) arguments.push_back(&addresses.back());
  CudaLaunchShape shape;
  shape.grid[0] = static_cast<uint32_t>(how.blocks);
  shape.threads = static_cast<uint32_t>(how.threads);
  shape.cluster = static_cast<uint32_t>(how.cluster);
  shape.cooperative = how.cooperative;
  shape.shared_bytes = how.shared_bytes;
  return stream_.launch(executable_.device()->kernel(launch.kernel), shape, arguments);
}

std::vector<HostOperand> DeviceWalk::describe(const std::vector<int32_t>& buffers,
                                              std::vector<std::vector<std::byte>>& memory) const {
  std::vector<HostOperand> operands;
  if (memory.size() < buffers.size()) memory.resize(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[static_cast<size_t>(buffers[i])];
    memory[i].resize(static_cast<size_t>(*checked_byte_size(buffer.dtype, buffer.shape)));
    operands.push_back({buffer.dtype, &buffer.shape, memory[i].data()});
  }
  return operands;
}

Status DeviceWalk::run_host(const HostStep& step) {
  if (step.op == HostStep::Op::kCopy) {
    const ProgramBuffer& from = program_.buffers[static_cast<size_t>(step.operands[0])];
    return copy(step.operands[0], step.results[0], *checked_byte_size(from.dtype, from.shape));
  }
  const std::vector<HostOperand> operands = describe(step.operands, run_.host_operands_);
  const std::vector<HostOperand> results = describe(step.results, run_.host_results_);
  for (size_t i = 0; i < operands.size(); ++i) {
    WEFT_RETURN_IF_ERROR(stream_.copy_to_host(run_.host_operands_[i], address(step.operands[i])));
  }
  WEFT_RETURN_IF_ERROR(stream_.synchronize());
  run_host_step(step, operands, results, run_.host_scratch_.data());
  for (size_t i = 0; i < results.size(); ++i) {
    WEFT_RETURN_IF_ERROR(stream_.copy_to_device(address(step.results[i]), run_.host_results_[i]));
  }
  // The memory of these results is the next operation's.
  return stream_.synchronize();
}

Result<bool> DeviceWalk::read_condition(int32_t buffer) {
  std::byte value{};
  WEFT_RETURN_IF_ERROR(stream_.copy_to_host({&value, 1}, address(buffer)));
  WEFT_RETURN_IF_ERROR(stream_.synchronize());
  return value != std::byte{};
}

Status DeviceWalk::run_if(const ExecutableStep& step) {
  WEFT_ASSIGN_OR_RETURN(const bool holds, read_condition(step.source->if_step->condition));
  return run_steps(holds ? step.body : step.otherwise);
}

Status DeviceWalk::run_loop(const ExecutableStep& step) {
  const LoopStep& loop = *step.source->loop_step;
  const auto bytes_of = [&](const LoopStep::Carry& carry) {
    return program_.buffers[static_cast<size_t>(carry.carry)].bytes;
  };
  enter_iteration(loop.loop, 0);
  for (const LoopStep::Carry& carry : loop.carries) {
    if (carry.initial < 0) continue;
    WEFT_RETURN_IF_ERROR(copy(carry.initial, carry.carry, bytes_of(carry)));
  }
  int64_t iteration = 0;
  WEFT_RETURN_IF_ERROR(run_iterations(step, iteration));
  enter_iteration(loop.loop, iteration);
  for (const LoopStep::Carry& carry : loop.carries) {
    if (carry.result < 0) continue;
    WEFT_RETURN_IF_ERROR(copy(carry.carry, carry.result, bytes_of(carry)));
  }
  return {};
}

Status DeviceWalk::run_iterations(const ExecutableStep& step, int64_t& iteration) {
  const LoopStep& loop = *step.source->loop_step;
  const bool is_while = loop.condition >= 0;
  for (; is_while || iteration < loop.trips; ++iteration) {
    enter_iteration(loop.loop, iteration);
    if (is_while) {
      WEFT_RETURN_IF_ERROR(run_steps(step.condition));
      WEFT_ASSIGN_OR_RETURN(const bool goes_on, read_condition(loop.condition));
      if (!goes_on) return {};
      if (iteration >= run_.max_iterations_) {
        return invalid_input("loop '" + step.source->name + "' did not end within " +
                             std::to_string(run_.max_iterations_) + " iterations");
      }
    }
    WEFT_RETURN_IF_ERROR(run_steps(step.body));
  }
  return {};
}

Status DeviceWalk::copy(int32_t from, int32_t to, int64_t bytes) {
  if (address(from) == address(to)) return {};
  return stream_.copy_on_device(address(to), address(from), bytes);
}

void DeviceWalk::enter_iteration(int32_t loop, int64_t iteration) {
  iterations_[static_cast<size_t>(loop)] = iteration;
  const LoopFacts& facts = executable_.loops();
  for (const int32_t b : facts.moving[static_cast<size_t>(loop)]) {
    table_[static_cast<size_t>(b)] =
        moving_address(program_.buffers[static_cast<size_t>(b)], facts.trips, iterations_, table_);
  }
}

}  // namespace weft
