#include "runtime/verify_program.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "runtime/host_ops.h"
#include "runtime/work_shares.h"
#include "target/library_call.h"

namespace weft {
namespace {

using Kind = ProgramBuffer::Kind;

/// More than any machine has; keeps sums of sizes far from overflow.
constexpr int64_t kMaxBytes = int64_t{1} << 48;
constexpr int32_t kMaxLoops = 1 << 20;
/// Buffers that one buffer may be a part of, directly or not.
constexpr size_t kMaxReach = 4 * kMaxStepDepth;

/// The buffers that `buffer` is a part of.
std::vector<int32_t> parents(const ProgramBuffer& buffer) {
  switch (buffer.kind) {
    case Kind::kSlice:
      return {buffer.base};
    case Kind::kCarry:
    case Kind::kCarryNext:
    case Kind::kStackedCarry:
      return {buffer.base, buffer.other};
    default:
      return {};
  }
}

/// Buffers after their parents, depth first without recursion; empty when they form a cycle.
/// Requires: parents in range.
std::vector<int32_t> order_buffers(const std::vector<ProgramBuffer>& buffers) {
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> state(buffers.size(), kNew);
  std::vector<int32_t> order, stack;
  for (size_t root = 0; root < buffers.size(); ++root) {
    stack.push_back(static_cast<int32_t>(root));
    while (!stack.empty()) {
      const auto top = static_cast<size_t>(stack.back());
      if (state[top] == kNew) {
        state[top] = kOpen;
        for (int32_t parent : parents(buffers[top])) {
          if (state[static_cast<size_t>(parent)] == kOpen) return {};
          if (state[static_cast<size_t>(parent)] == kNew) stack.push_back(parent);
        }
      } else {
        stack.pop_back();
        if (state[top] == kOpen) order.push_back(static_cast<int32_t>(top));
        state[top] = kDone;
      }
    }
  }
  return order;
}

/// By buffer, the loops whose iteration its address depends on, ascending: of slices alone, or of
/// carries too. Empty when a buffer depends on more than `limit`.
std::vector<std::vector<int32_t>> loops_of_buffers(const Program& program,
                                                   const std::vector<int32_t>& order,
                                                   bool slices_only, size_t limit) {
  std::vector<std::vector<int32_t>> result(program.buffers.size());
  for (int32_t b : order) {
    const ProgramBuffer& buffer = program.buffers[static_cast<size_t>(b)];
    std::vector<int32_t>& loops = result[static_cast<size_t>(b)];
    for (int32_t parent : parents(buffer)) {
      const std::vector<int32_t>& more = result[static_cast<size_t>(parent)];
      loops.insert(loops.end(), more.begin(), more.end());
    }
    const bool moves = slices_only ? buffer.kind == Kind::kSlice : buffer.kind >= Kind::kSlice;
    if (moves) loops.push_back(buffer.loop);
    std::sort(loops.begin(), loops.end());
    loops.erase(std::unique(loops.begin(), loops.end()), loops.end());
    if (loops.size() > limit) return {};
  }
  return result;
}

struct LoopUse {
  bool seen = false;
  bool is_while = false;
  int64_t trips = 0;
};

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const Program& program) : program_(program) {}

  Status verify() {
    WEFT_RETURN_IF_ERROR(verify_sizes());
    WEFT_RETURN_IF_ERROR(verify_io(program_.inputs, "input"));
    WEFT_RETURN_IF_ERROR(verify_seed());
    WEFT_RETURN_IF_ERROR(verify_io(program_.outputs, "output"));
    for (const HostTensor& constant : program_.constants) {
      if (constant.bytes() > 0 && constant.raw() == nullptr) return fault("a constant has no data");
    }
    for (const KernelImage& kernel : program_.kernels) {
      if (kernel.device.entry.empty() != program_.arch.empty()) {
        return fault("kernel '" + kernel.name + "' is code of another kind of device");
      }
    }
    loops_.resize(static_cast<size_t>(program_.loop_count));
    WEFT_RETURN_IF_ERROR(collect_loops(program_.steps, 0));
    WEFT_RETURN_IF_ERROR(verify_buffers());
    return verify_steps(program_.steps);
  }

 private:
  Error fault(const std::string& what) const {
    const std::string name = program_.model.empty() ? "the program" : "'" + program_.model + "'";
    return invalid_input(name + " is damaged: " + what);
  }
  Error fault(const ProgramStep& step, const std::string& what) const {
    return fault("step '" + step.name + "': " + what);
  }
  Error fault(size_t buffer, const std::string& what) const {
    return fault("buffer " + std::to_string(buffer) + " '" + program_.buffers[buffer].name +
                 "': " + what);
  }

  Status verify_sizes() const {
    if (program_.arena_bytes < 0 || program_.arena_bytes > kMaxBytes) return fault("arena size");
    if (program_.buffers.size() > std::numeric_limits<int32_t>::max()) return fault("too much");
    if (program_.loop_count < 0 || program_.loop_count > kMaxLoops) return fault("loop count");
    return {};
  }

  Status verify_io(const std::vector<ProgramIo>& list, const char* what) const {
    for (const ProgramIo& io : list) {
      const std::string name = std::string(what) + " '" + io.name + "'";
      const auto bytes = valid_bytes(io.dtype, io.shape);
      if (!bytes.has_value() || *bytes > kMaxBytes) return fault(name + " has an impossible type");
      const bool power_of_two = (io.alignment & (io.alignment - 1)) == 0;
      if (io.alignment < 0 || io.alignment > 64 || !power_of_two) {
        return fault(name + " has an impossible alignment");
      }
    }
    return {};
  }

  Status verify_seed() const {
    for (const ProgramIo& io : program_.inputs) {
      if (!io.drawn) continue;
      if (&io != &program_.inputs.back() || io.dtype != DType::kU64 || !io.shape.empty())
        return fault("input '" + io.name + "' is drawn and no seed");
    }
    return {};
  }

  static std::optional<int64_t> valid_bytes(DType dtype, const Shape& shape) {
    if (dtype > DType::kF64) return std::nullopt;
    return checked_byte_size(dtype, shape);
  }

  Status collect_loops(const std::vector<ProgramStep>& steps, int depth) {
    if (depth > kMaxStepDepth) return fault("steps nest too deep");
    for (const ProgramStep& step : steps) {
      if (step.kind > ProgramStep::Kind::kLoop) return fault(step, "unknown kind");
      if (step.kind == ProgramStep::Kind::kIf) {
        if (step.if_step == nullptr) return fault(step, "no branches");
        WEFT_RETURN_IF_ERROR(collect_loops(step.if_step->then_steps, depth + 1));
        WEFT_RETURN_IF_ERROR(collect_loops(step.if_step->else_steps, depth + 1));
      }
      if (step.kind != ProgramStep::Kind::kLoop) continue;
      if (step.loop_step == nullptr) return fault(step, "no loop");
      const LoopStep& loop = *step.loop_step;
      if (loop.loop < 0 || loop.loop >= program_.loop_count) return fault(step, "loop number");
      LoopUse& use = loops_[static_cast<size_t>(loop.loop)];
      if (use.seen) return fault(step, "the number of another loop");
      if (loop.trips < 0) return fault(step, "negative number of iterations");
      use = {true, loop.condition >= 0, loop.condition >= 0 ? 0 : loop.trips};
      WEFT_RETURN_IF_ERROR(collect_loops(loop.condition_steps, depth + 1));
      WEFT_RETURN_IF_ERROR(collect_loops(loop.body, depth + 1));
    }
    return {};
  }

  Status verify_buffers() {
    const std::vector<ProgramBuffer>& buffers = program_.buffers;
    for (size_t b = 0; b < buffers.size(); ++b) {
      if (buffers[b].kind > Kind::kStackedCarry) return fault(b, "unknown kind");
      for (int32_t parent : parents(buffers[b])) {
        if (!in_range(parent)) return fault(b, "part of a buffer that does not exist");
      }
      const auto bytes = valid_bytes(buffers[b].dtype, buffers[b].shape);
      if (!bytes.has_value()) return fault(b, "impossible type");
      if (buffers[b].bytes < 0 || buffers[b].bytes > kMaxBytes) return fault(b, "size");
      if (*bytes > buffers[b].bytes) return fault(b, "smaller than its shape");
    }
    order_ = order_buffers(buffers);
    if (order_.size() != buffers.size()) return fault("buffers are parts of each other");
    for (int32_t b : order_) WEFT_RETURN_IF_ERROR(verify_place(static_cast<size_t>(b)));
    constexpr size_t kMostLoops = kMaxStepDepth;
    enclosing_ = loops_of_buffers(program_, order_, /*slices_only=*/true, kMostLoops);
    if (loops_of_buffers(program_, order_, /*slices_only=*/false, kMostLoops).size() !=
        buffers.size()) {
      return fault("a buffer moves with too many loops");
    }
    return {};
  }

  Status verify_place(size_t b) const {
    const ProgramBuffer& buffer = program_.buffers[b];
    switch (buffer.kind) {
      case Kind::kInput:
        return verify_caller_place(b, program_.inputs);
      case Kind::kOutput:
        return verify_caller_place(b, program_.outputs);
      case Kind::kConstant:
        if (std::cmp_less(buffer.index, 0) ||
            std::cmp_greater_equal(buffer.index, program_.constants.size())) {
          return fault(b, "no such constant");
        }
        if (buffer.bytes > program_.constants[static_cast<size_t>(buffer.index)].bytes()) {
          return fault(b, "larger than its constant");
        }
        return {};
      case Kind::kArena:
        if (buffer.offset < 0 || buffer.offset > program_.arena_bytes - buffer.bytes) {
          return fault(b, "outside the arena");
        }
        if (buffer.offset % byte_size(buffer.dtype) != 0) return fault(b, "misaligned");
        return {};
      case Kind::kSlice:
        return verify_slice(b, base_of(buffer));
      case Kind::kStackedCarry:
        WEFT_RETURN_IF_ERROR(verify_slice(b, program_.buffers[static_cast<size_t>(buffer.other)]));
        return buffer.bytes <= base_of(buffer).bytes
                   ? Status()
                   : fault(b, "a carry larger than its initial value");
      default:
        return verify_carry(b);
    }
  }

  Status verify_caller_place(size_t b, const std::vector<ProgramIo>& list) const {
    const ProgramBuffer& buffer = program_.buffers[b];
    if (buffer.index < 0 || std::cmp_greater_equal(buffer.index, list.size())) {
      return fault(b, "no such input or output");
    }
    const ProgramIo& io = list[static_cast<size_t>(buffer.index)];
    if (buffer.bytes > *checked_byte_size(io.dtype, io.shape)) {
      return fault(b, "larger than '" + io.name + "'");
    }
    return {};
  }

  /// Of `whole`, a row at each iteration.
  Status verify_slice(size_t b, const ProgramBuffer& whole) const {
    const ProgramBuffer& buffer = program_.buffers[b];
    if (buffer.loop < 0 || buffer.loop >= program_.loop_count) return fault(b, "no such loop");
    const LoopUse& loop = loops_[static_cast<size_t>(buffer.loop)];
    if (!loop.seen) return fault(b, "a slice of no loop");
    if (loop.is_while) return fault(b, "a slice of a loop without a fixed number of iterations");
    if (buffer.stride < 0 || buffer.stride > kMaxBytes) return fault(b, "stride");
    if (loop.trips == 0) return {};  // never used: its loop has no iteration
    const int64_t room = whole.bytes - buffer.bytes;
    if (room < 0 || (buffer.stride > 0 && loop.trips - 1 > room / buffer.stride)) {
      return fault(b, "a slice outside its base");
    }
    if (buffer.stride % byte_size(buffer.dtype) != 0) return fault(b, "misaligned");
    return {};
  }

  Status verify_carry(size_t b) const {
    const ProgramBuffer& buffer = program_.buffers[b];
    if (buffer.loop < 0 || buffer.loop >= program_.loop_count) return fault(b, "no such loop");
    if (!loops_[static_cast<size_t>(buffer.loop)].seen) return fault(b, "a carry of no loop");
    const ProgramBuffer& other = program_.buffers[static_cast<size_t>(buffer.other)];
    if (buffer.bytes > base_of(buffer).bytes || buffer.bytes > other.bytes) {
      return fault(b, "a carry larger than its places");
    }
    return {};
  }

  const ProgramBuffer& base_of(const ProgramBuffer& buffer) const {
    return program_.buffers[static_cast<size_t>(buffer.base)];
  }

  bool in_range(int32_t buffer) const {
    return buffer >= 0 && std::cmp_less(buffer, program_.buffers.size());
  }

  /// Exists, and every loop that it is a slice of is running.
  Status verify_use(const ProgramStep& step, int32_t buffer) const {
    if (!in_range(buffer)) return fault(step, "a buffer that does not exist");
    for (int32_t loop : enclosing_[static_cast<size_t>(buffer)]) {
      if (std::find(running_.begin(), running_.end(), loop) == running_.end()) {
        return fault(step, "a slice outside its loop");
      }
    }
    return {};
  }

  Status verify_written(const ProgramStep& step, int32_t buffer) const {
    WEFT_RETURN_IF_ERROR(verify_use(step, buffer));
    // Constants lie in read-only memory, inputs are the caller's; both may be reached as slices.
    std::vector<int32_t> reach = {buffer};
    for (size_t i = 0; i < reach.size(); ++i) {
      if (reach.size() > kMaxReach) return fault(step, "a result made of too many parts");
      const ProgramBuffer& at = program_.buffers[static_cast<size_t>(reach[i])];
      if (at.kind == Kind::kConstant || at.kind == Kind::kInput) {
        return fault(step, "writes an input or a constant");
      }
      for (int32_t parent : parents(at)) {
        if (std::find(reach.begin(), reach.end(), parent) == reach.end()) reach.push_back(parent);
      }
    }
    return {};
  }

  Status verify_condition(const ProgramStep& step, int32_t buffer) const {
    WEFT_RETURN_IF_ERROR(verify_use(step, buffer));
    const ProgramBuffer& condition = program_.buffers[static_cast<size_t>(buffer)];
    if (condition.dtype != DType::kBool || condition.bytes < 1) {
      return fault(step, "the condition is not a bool");
    }
    return {};
  }

  Status verify_steps(const std::vector<ProgramStep>& steps) {
    for (const ProgramStep& step : steps) {
      switch (step.kind) {
        case ProgramStep::Kind::kLaunch:
          WEFT_RETURN_IF_ERROR(verify_launch(step));
          break;
        case ProgramStep::Kind::kHost:
          WEFT_RETURN_IF_ERROR(verify_host(step));
          break;
        case ProgramStep::Kind::kIf:
          WEFT_RETURN_IF_ERROR(verify_condition(step, step.if_step->condition));
          WEFT_RETURN_IF_ERROR(verify_steps(step.if_step->then_steps));
          WEFT_RETURN_IF_ERROR(verify_steps(step.if_step->else_steps));
          break;
        case ProgramStep::Kind::kLoop:
          WEFT_RETURN_IF_ERROR(verify_loop(step));
          break;
      }
    }
    return {};
  }

  Status verify_launch(const ProgramStep& step) const {
    const LaunchStep& launch = step.launch;
    if (launch.kernel < 0 || std::cmp_greater_equal(launch.kernel, program_.kernels.size())) {
      return fault(step, "a kernel that does not exist");
    }
    const KernelImage& kernel = program_.kernels[static_cast<size_t>(launch.kernel)];
    if (launch.work_items.size() != kernel.phase_entries.size()) {
      return fault(step, "not the phases of its kernel");
    }
    for (int64_t items : launch.work_items) {
      if (items < 0) return fault(step, "negative work");
    }
    if (launch.pieces < 1 || launch.pieces > WorkShares::kMostPieces) return fault(step, "pieces");
    if (launch.scratch_bytes < 0 || launch.scratch_bytes > kMaxBytes) return fault(step, "scratch");
    for (int32_t buffer : launch.buffers) WEFT_RETURN_IF_ERROR(verify_use(step, buffer));
    return kernel.device.library_call.empty() ? Status() : verify_library(step, kernel);
  }

  /// The call stays inside its buffers, which begin where the library can read them.
  Status verify_library(const ProgramStep& step, const KernelImage& kernel) const {
    const std::vector<int32_t>& buffers = step.launch.buffers;
    auto call = parse_library_call(kernel.device.library_call);
    if (!call.ok()) return fault(step, call.error().message);
    const Status status = verify_library_call(*call, static_cast<int64_t>(buffers.size()));
    if (!status.ok()) return fault(step, status.error().message);
    for (const CallBuffer& touched : buffers_of(*call)) {
      const ProgramBuffer& buffer =
          program_.buffers[static_cast<size_t>(buffers[static_cast<size_t>(touched.position)])];
      const auto bytes = checked_byte_size(touched.type, {touched.elements});
      if (!bytes || *bytes > buffer.bytes || buffer.kind >= ProgramBuffer::Kind::kSlice) {
        return fault(step, "a library call on a buffer that does not hold what it takes");
      }
    }
    return {};
  }

  Status verify_host(const ProgramStep& step) const {
    const HostStep& host = step.host;
    for (int32_t buffer : host.operands) WEFT_RETURN_IF_ERROR(verify_use(step, buffer));
    for (int32_t buffer : host.results) WEFT_RETURN_IF_ERROR(verify_written(step, buffer));
    const std::vector<HostOperand> operands = types_of(program_.buffers, host.operands);
    const std::vector<HostOperand> results = types_of(program_.buffers, host.results);
    if (Status status = verify_host_step(host, operands, results); !status.ok()) {
      return fault(step, status.error().message);
    }
    const int64_t scratch = host_step_scratch_bytes(host, operands);
    if (scratch < 0 || scratch > kMaxBytes) return fault(step, "scratch");
    return {};
  }

  Status verify_loop(const ProgramStep& step) {
    const LoopStep& loop = *step.loop_step;
    for (const LoopStep::Carry& carry : loop.carries) {
      WEFT_RETURN_IF_ERROR(verify_use(step, carry.carry));
      const ProgramBuffer& buffer = program_.buffers[static_cast<size_t>(carry.carry)];
      const bool stacked = buffer.kind == Kind::kStackedCarry;
      if ((buffer.kind != Kind::kCarry && !stacked) || buffer.loop != loop.loop) {
        return fault(step, "carries a buffer that is no carry of it");
      }
      if (!stacked) WEFT_RETURN_IF_ERROR(verify_written(step, carry.carry));
      if (stacked && carry.initial >= 0) return fault(step, "a stacked carry begins in place");
      if (carry.initial >= 0) WEFT_RETURN_IF_ERROR(verify_use(step, carry.initial));
      if (carry.result >= 0) WEFT_RETURN_IF_ERROR(verify_written(step, carry.result));
      for (int32_t end : {carry.initial, carry.result}) {
        if (end >= 0 && program_.buffers[static_cast<size_t>(end)].bytes < buffer.bytes) {
          return fault(step, "a carry larger than its initial value or result");
        }
      }
    }
    running_.push_back(loop.loop);
    if (loop.condition >= 0) WEFT_RETURN_IF_ERROR(verify_condition(step, loop.condition));
    WEFT_RETURN_IF_ERROR(verify_steps(loop.condition_steps));
    WEFT_RETURN_IF_ERROR(verify_steps(loop.body));
    running_.pop_back();
    return {};
  }

  const Program& program_;
  std::vector<LoopUse> loops_;
  std::vector<int32_t> order_;
  std::vector<std::vector<int32_t>> enclosing_;  ///< by buffer: loops that run where it is used
  std::vector<int32_t> running_;                 ///< the loops around the step being verified
};

void collect_trips(const std::vector<ProgramStep>& steps, std::vector<int64_t>& trips) {
  for (const ProgramStep& step : steps) {
    if (step.kind == ProgramStep::Kind::kIf) {
      collect_trips(step.if_step->then_steps, trips);
      collect_trips(step.if_step->else_steps, trips);
    } else if (step.kind == ProgramStep::Kind::kLoop) {
      const LoopStep& loop = *step.loop_step;
      trips[static_cast<size_t>(loop.loop)] = loop.condition >= 0 ? 0 : loop.trips;
      collect_trips(loop.condition_steps, trips);
      collect_trips(loop.body, trips);
    }
  }
}

}  // namespace

Status verify_program(const Program& program) { return ProgramVerifier(program).verify(); }

LoopFacts loop_facts(const Program& program) {
  LoopFacts facts;
  const auto loops = static_cast<size_t>(program.loop_count);
  facts.trips.resize(loops);
  collect_trips(program.steps, facts.trips);
  facts.order = order_buffers(program.buffers);
  facts.moving.resize(loops);
  const auto loops_of = loops_of_buffers(program, facts.order, /*slices_only=*/false,
                                         std::numeric_limits<size_t>::max());
  for (int32_t b : facts.order) {
    for (int32_t loop : loops_of[static_cast<size_t>(b)]) {
      facts.moving[static_cast<size_t>(loop)].push_back(b);
    }
  }
  return facts;
}

}  // namespace weft
