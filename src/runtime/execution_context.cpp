#include "runtime/execution_context.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/buffer_address.h"
#include "runtime/flush_denormals.h"
#include "runtime/region_walk.h"
#include "runtime/run_seed.h"

namespace weft {
namespace {

using Kind = ProgramBuffer::Kind;

std::string describe(DType dtype, std::span<const int64_t> shape) {
  std::string text(dtype <= DType::kF64 ? dtype_name(dtype) : "an unknown type");
  text += '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  }
  return text + ']';
}

/// The caller's tensor is what the program declares; gives the addresses that it touches.
template <typename Ref>
Result<ByteRange> check_tensor(const Ref& given, const ProgramIo& declared, const char* what) {
  const std::string_view name = declared.name;
  const auto error = [&](const std::string& problem) {
    return invalid_input(std::string(what) + " '" + std::string(name) + "': " + problem);
  };
  if (given.dtype != declared.dtype || !std::ranges::equal(given.shape, declared.shape)) {
    return error("expected " + describe(declared.dtype, declared.shape) + ", got " +
                 describe(given.dtype, given.shape));
  }
  if (!given.strides.empty() && given.strides.size() != given.shape.size()) {
    return error(std::to_string(given.strides.size()) + " strides for " +
                 std::to_string(given.shape.size()) + " axes");
  }
  if (given.data == nullptr && *element_count(declared.shape) != 0) return error("no data");
  const std::optional<ByteRange> range =
      touched_bytes(given.data, given.dtype, given.shape, given.strides);
  if (!range.has_value()) return error("the strides leave the address space");
  return *range;
}

template <typename Ref>
Status check_tensors(std::span<const Ref> given, const std::vector<ProgramIo>& declared,
                     const char* what, std::vector<ByteRange>& ranges) {
  if (given.size() != declared.size()) {
    return invalid_input("expected " + std::to_string(without_drawn(declared).size()) + " " + what +
                         "s, got " + std::to_string(given.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    WEFT_ASSIGN_OR_RETURN(ranges[i], check_tensor(given[i], declared[i], what));
  }
  return {};
}

/// What cannot be done with tensors in a GPU's memory.
template <typename Ref>
Status check_places(std::span<const Ref> given, const std::vector<ProgramIo>& declared,
                    const char* what, bool has_device) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].on_device) continue;
    const std::string tensor =
        std::string(what) + " '" + declared[i].name + "' is in a GPU's memory";
    if (!has_device) {
      return invalid_input(tensor +
                           ", and the model is compiled for the processor: give it a "
                           "tensor of the host, or compile for cuda");
    }
    if (!is_dense(given[i].shape, given[i].strides))
      return invalid_input(tensor + " and not dense: give it a contiguous tensor");
  }
  return {};
}

/// Whether kernels can work on the caller's memory.
template <typename Ref>
bool usable_in_place(const Ref& tensor, const ProgramIo& declared) {
  const int64_t alignment = std::max<int64_t>(declared.alignment, byte_size(declared.dtype));
  if (tensor.on_device) return true;
  return is_dense(tensor.shape, tensor.strides) &&
         reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(alignment) == 0;
}

Status allocate_copy(Memory& copy, const ProgramIo& io, const char* what) {
  if (copy.data() != nullptr) return {};
  const int64_t bytes = std::max<int64_t>(1, *checked_byte_size(io.dtype, io.shape));
  WEFT_ASSIGN_OR_RETURN(copy, Memory::allocate(bytes, what));
  return {};
}

/// An address for tensors without elements, which nobody reads.
void* nowhere(void* data, void* substitute) { return data != nullptr ? data : substitute; }

/// Rounded up so that no two threads share a cache line or its neighbour that is fetched with it.
int64_t padded_scratch(int64_t bytes) { return (bytes + 127) / 128 * 128; }

}  // namespace

ExecutionContext::ExecutionContext(std::shared_ptr<const Executable> executable,
                                   ContextOptions options)
    : executable_(std::move(executable)), options_(std::move(options)) {}

ExecutionContext::~ExecutionContext() = default;

Result<std::unique_ptr<ExecutionContext>> ExecutionContext::create(
    std::shared_ptr<const Executable> executable, ContextOptions options) {
  std::unique_ptr<ExecutionContext> context(
      new ExecutionContext(std::move(executable), std::move(options)));
  WEFT_RETURN_IF_ERROR(context->allocate());
  return context;
}

Status ExecutionContext::allocate() {
  const Program& program = executable_->program();
  allocate_bindings();
  if (executable_->device() != nullptr) {
    WEFT_ASSIGN_OR_RETURN(device_, DeviceRun::create(executable_, options_.max_iterations));
    return {};
  }
  const bool shared =
      options_.pool != nullptr && options_.launcher == nullptr && executable_->is_parallel();
  const int threads = shared ? options_.pool->threads() : 1;
  WEFT_ASSIGN_OR_RETURN(arena_, Memory::allocate(program.arena_bytes, "intermediate values"));
  const int64_t scratch = padded_scratch(executable_->scratch_bytes_per_thread());
  WEFT_ASSIGN_OR_RETURN(scratch_, Memory::allocate(scratch * threads, "scratch"));
  threads_ = std::vector<ThreadState>(static_cast<size_t>(threads));
  region_.shares = WorkShares(threads);
  constexpr size_t kMostHostOperands = 3;
  for (size_t t = 0; t < threads_.size(); ++t) {
    ThreadState& state = threads_[t];
    if (program.loop_count > 0) state.table.resize(program.buffers.size());
    state.iterations.resize(static_cast<size_t>(program.loop_count));
    state.launch_table.resize(executable_->most_launch_buffers() + 1);  // and a PhaseBarrier
    state.host_operands.reserve(kMostHostOperands);
    state.host_results.reserve(kMostHostOperands);
    if (scratch > 0) state.scratch = scratch_.data() + static_cast<int64_t>(t) * scratch;
  }
  start_table_.resize(program.buffers.size());
  for (int32_t b : executable_->loops().order) {
    const ProgramBuffer& buffer = program.buffers[static_cast<size_t>(b)];
    void*& address = start_table_[static_cast<size_t>(b)];
    if (buffer.kind == Kind::kConstant) {
      const HostTensor& constant = program.constants[static_cast<size_t>(buffer.index)];
      address = const_cast<std::byte*>(constant.raw());
    } else if (buffer.kind == Kind::kArena) {
      address = arena_.data() == nullptr ? nullptr : arena_.data() + buffer.offset;
    } else {
      rebound_.push_back(b);
    }
  }
  return {};
}

void ExecutionContext::allocate_bindings() {
  const Program& program = executable_->program();
  input_data_.resize(program.inputs.size());
  seeded_inputs_.reserve(program.inputs.size());
  input_ranges_.resize(program.inputs.size());
  input_copies_.resize(program.inputs.size());
  output_data_.resize(program.outputs.size());
  output_ranges_.resize(program.outputs.size());
  output_copies_.resize(program.outputs.size());
  output_delivered_.resize(program.outputs.size());
}

Status ExecutionContext::run(std::span<const InputRef> inputs, std::span<const OutputRef> outputs,
                             const RunOptions& options) {
  if (running_.exchange(true, std::memory_order_acquire)) {
    return invalid_input("this context is running already: give every thread its own context");
  }
  Status status = run_exclusively(with_seed(inputs), outputs, options);
  running_.store(false, std::memory_order_release);
  return status;
}

std::span<const InputRef> ExecutionContext::with_seed(std::span<const InputRef> inputs) {
  const Program& program = executable_->program();
  const size_t wanted = program.given_inputs().size();
  if (wanted == program.inputs.size() || inputs.size() != wanted) return inputs;
  seed_ = next_run_seed();
  seeded_inputs_.assign(inputs.begin(), inputs.end());
  seeded_inputs_.push_back({.dtype = DType::kU64, .shape = {}, .data = &seed_});
  return seeded_inputs_;
}

Status ExecutionContext::run_exclusively(std::span<const InputRef> inputs,
                                         std::span<const OutputRef> outputs,
                                         const RunOptions& options) {
  if (!options.step_nanoseconds.empty() &&
      options.step_nanoseconds.size() != executable_->steps().size()) {
    return invalid_input("expected room for the times of " +
                         std::to_string(executable_->steps().size()) + " steps, got " +
                         std::to_string(options.step_nanoseconds.size()));
  }
  WEFT_RETURN_IF_ERROR(bind(inputs, outputs));
  if (device_ != nullptr) {
    for (size_t i = 0; i < inputs.size(); ++i) device_->inputs_there()[i] = inputs[i].on_device;
    for (size_t o = 0; o < outputs.size(); ++o) device_->outputs_there()[o] = outputs[o].on_device;
    WEFT_RETURN_IF_ERROR(device_->run(input_data_, output_data_, options));
    deliver(outputs);
    return {};
  }
  region_.options = &options;
  region_.stop.store(false, std::memory_order_relaxed);
  region_.too_many_iterations = false;
  region_.launch_error.reset();
  const auto body = [](void* context, int thread) {
    const FlushDenormals flush;
    RegionWalk(*static_cast<ExecutionContext*>(context), thread).walk();
  };
  bool done = false;
  if (threads_.size() > 1) {
    region_.threads = static_cast<int>(threads_.size());
    region_.barrier.reset(region_.threads, options_.pool->region_wait());
    region_.shares.reset();
    const bool brief = executable_->program().brief;
    done = options_.pool->try_run(
        body, this, brief ? ThreadPool::Sleepers::kLeave : ThreadPool::Sleepers::kWake);
  }
  if (!done) {
    region_.threads = 1;
    body(this, 0);
  }
  WEFT_RETURN_IF_ERROR(outcome());
  deliver(outputs);
  return {};
}

Status ExecutionContext::outcome() const {
  if (region_.launch_error) return *region_.launch_error;
  if (region_.stop.load(std::memory_order_relaxed)) {
    return Error{ErrorCode::kInterrupted, "the run was cancelled"};
  }
  if (region_.too_many_iterations) {
    const StepInfo& step = executable_->steps()[static_cast<size_t>(region_.endless_step)];
    return invalid_input("loop '" + step.name + "' did not end within " +
                         std::to_string(options_.max_iterations) + " iterations");
  }
  return {};
}

Status ExecutionContext::bind(std::span<const InputRef> inputs,
                              std::span<const OutputRef> outputs) {
  const Program& program = executable_->program();
  WEFT_RETURN_IF_ERROR(check_tensors(inputs, program.inputs, "input", input_ranges_));
  WEFT_RETURN_IF_ERROR(check_tensors(outputs, program.outputs, "output", output_ranges_));
  const bool has_device = device_ != nullptr;
  WEFT_RETURN_IF_ERROR(check_places(inputs, program.inputs, "input", has_device));
  WEFT_RETURN_IF_ERROR(check_places(outputs, program.outputs, "output", has_device));
  WEFT_RETURN_IF_ERROR(bind_inputs(inputs));
  WEFT_RETURN_IF_ERROR(bind_outputs(outputs));
  bind_buffers();
  return {};
}

void ExecutionContext::bind_buffers() {
  const Program& program = executable_->program();
  const LoopFacts& loops = executable_->loops();
  if (device_ != nullptr) return;  // the device has addresses of its own
  ThreadState& state = threads_[0];
  std::fill(state.iterations.begin(), state.iterations.end(), 0);
  for (int32_t b : rebound_) {
    const ProgramBuffer& buffer = program.buffers[static_cast<size_t>(b)];
    void*& address = start_table_[static_cast<size_t>(b)];
    if (buffer.kind == Kind::kInput) {
      address = input_data_[static_cast<size_t>(buffer.index)];
    } else if (buffer.kind == Kind::kOutput) {
      address = output_data_[static_cast<size_t>(buffer.index)];
    } else {
      address = moving_address(buffer, loops.trips, state.iterations, start_table_);
    }
  }
}

Status ExecutionContext::bind_inputs(std::span<const InputRef> inputs) {
  const std::vector<ProgramIo>& declared = executable_->program().inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputRef& input = inputs[i];
    if (input.data == nullptr || usable_in_place(input, declared[i])) {
      input_data_[i] = nowhere(const_cast<void*>(input.data), &region_);
      continue;
    }
    WEFT_RETURN_IF_ERROR(allocate_copy(input_copies_[i], declared[i], "a copy of an input"));
    std::byte* copy = input_copies_[i].data();
    const int64_t element = byte_size(input.dtype);
    if (is_dense(input.shape, input.strides)) {
      std::memcpy(copy, input.data,
                  static_cast<size_t>(*element_count(declared[i].shape) * element));
    } else {
      copy_from_strided(copy, input.data, element, input.shape, input.strides);
    }
    input_data_[i] = copy;
  }
  return {};
}

Status ExecutionContext::bind_outputs(std::span<const OutputRef> outputs) {
  const std::vector<ProgramIo>& declared = executable_->program().outputs;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const OutputRef& output = outputs[o];
    const ByteRange& range = output_ranges_[o];
    if (!elements_are_distinct(output.shape, output.strides)) {
      return invalid_input("output '" + declared[o].name +
                           "': its strides give several elements the same place");
    }
    // Strided outputs may interleave.
    const bool dense = is_dense(output.shape, output.strides);
    for (size_t other = 0; other < o && dense; ++other) {
      if (is_dense(outputs[other].shape, outputs[other].strides) &&
          range.overlaps(output_ranges_[other])) {
        return invalid_input("outputs '" + declared[other].name + "' and '" + declared[o].name +
                             "' overlap");
      }
    }
    // A kernel may write the output while another still reads the input.
    const bool overlaps_input =
        !output.on_device && std::ranges::any_of(input_ranges_, [&](const ByteRange& input) {
          return range.overlaps(input);
        });
    output_delivered_[o] =
        output.data != nullptr && (overlaps_input || !usable_in_place(output, declared[o]));
    output_data_[o] = nowhere(output.data, &region_);
    if (output_delivered_[o]) {
      WEFT_RETURN_IF_ERROR(allocate_copy(output_copies_[o], declared[o], "a copy of an output"));
      output_data_[o] = output_copies_[o].data();
    }
  }
  return {};
}

void ExecutionContext::deliver(std::span<const OutputRef> outputs) {
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!output_delivered_[o]) continue;
    const OutputRef& output = outputs[o];
    const int64_t element = byte_size(output.dtype);
    const ProgramIo& declared = executable_->program().outputs[o];
    if (is_dense(output.shape, output.strides)) {
      std::memcpy(output.data, output_copies_[o].data(),
                  static_cast<size_t>(*element_count(declared.shape) * element));
    } else {
      copy_to_strided(output.data, output_copies_[o].data(), element, output.shape, output.strides);
    }
  }
}

}  // namespace weft
