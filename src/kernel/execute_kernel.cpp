#include <fmt/format.h>

#include "kernel/execution.h"
#include "kernel/kernel_op.h"

namespace weft {
namespace {

class KernelExecutor {
 public:
  KernelExecutor(const KernelFunction& kernel, const std::vector<int64_t>& arguments)
      : kernel_(kernel), arguments_(arguments), values_(kernel.types.size()) {}

  Status bind(const std::vector<std::span<std::byte>>& given) {
    size_t named = 0;
    for (const KernelBuffer& b : kernel_.buffers) {
      named += b.kind == KernelBuffer::Kind::kScratch ? 0 : 1;
    }
    const bool all = given.size() == kernel_.buffers.size();
    if (!all && given.size() != named) {
      return invalid_input(fmt::format("kernel '{}' has {} buffers, not {}", kernel_.name,
                                       kernel_.buffers.size(), given.size()));
    }
    scratch_.reserve(kernel_.buffers.size());
    size_t next = 0;
    for (const KernelBuffer& b : kernel_.buffers) {
      if (!all && b.kind == KernelBuffer::Kind::kScratch) {
        scratch_.emplace_back(static_cast<size_t>(b.elements * byte_size(b.dtype)));
        buffers_.emplace_back(scratch_.back());
      } else {
        buffers_.push_back(given[next++]);
      }
    }
    if (static_cast<int64_t>(arguments_.size()) < kernel_.argument_count) {
      return invalid_input(
          fmt::format("kernel '{}' takes {} arguments", kernel_.name, kernel_.argument_count));
    }
    return {};
  }

  Status run() {
    for (const KernelPhase& phase : kernel_.phases) {
      set_int(phase.body.parameters[0], 0);
      set_int(phase.body.parameters[1], phase.work_items);
      WEFT_RETURN_IF_ERROR(run_block(phase.body));
    }
    return {};
  }

 private:
  using Lanes = ScalarLanes;

  Lanes& lanes(Reg r) { return values_[static_cast<size_t>(r)]; }
  int64_t int_of(Reg r) { return lanes(r)[0].i; }
  void set_int(Reg r, int64_t value) { lanes(r).assign(1, int_value(DType::kI64, value)); }

  Status run_block(const KernelBlock& block) {
    for (const KernelInstruction& in : block.body) WEFT_RETURN_IF_ERROR(run_instruction(in));
    return {};
  }

  Status run_instruction(const KernelInstruction& in) {
    switch (in.op) {
      case KernelOp::kFor:
        return run_for(in);
      case KernelOp::kIf: {
        const KernelBlock& taken = in.regions[int_of(in.operands[0]) != 0 ? 0 : 1];
        WEFT_RETURN_IF_ERROR(run_block(taken));
        move_values(taken.yields, in.results);
        return {};
      }
      case KernelOp::kLoad:
      case KernelOp::kGather:
      case KernelOp::kStore:
      case KernelOp::kScatter:
        return run_access(in);
      case KernelOp::kPrefetch:
        return run_request(in);
      case KernelOp::kBarrier:  // of one thread
        return {};
      default:
        run_pure(in);
        return {};
    }
  }

  /// All at once: a loop may exchange its carries.
  void move_values(const std::vector<Reg>& from, const std::vector<Reg>& to) {
    std::vector<Lanes> moved;
    moved.reserve(from.size());
    for (const Reg r : from) moved.push_back(lanes(r));
    for (size_t i = 0; i < to.size(); ++i) lanes(to[i]) = std::move(moved[i]);
  }

  Status run_for(const KernelInstruction& in) {
    const KernelBlock& body = in.regions[0];
    const int64_t end = int_of(in.operands[1]), step = int_of(in.operands[2]);
    const std::vector<Reg> initial(in.operands.begin() + 3, in.operands.end());
    const std::vector<Reg> carries(body.parameters.begin() + 1, body.parameters.end());
    move_values(initial, carries);
    for (int64_t i = int_of(in.operands[0]); i < end; i += step) {
      set_int(body.parameters[0], i);
      WEFT_RETURN_IF_ERROR(run_block(body));
      move_values(body.yields, carries);
    }
    move_values(carries, in.results);
    return {};
  }

  Status run_access(const KernelInstruction& in) {
    const auto number = static_cast<size_t>(*buffer_of(in));
    const KernelBuffer& buffer = kernel_.buffers[number];
    const bool stores = in.op == KernelOp::kStore || in.op == KernelOp::kScatter;
    const bool indexed = in.op == KernelOp::kGather || in.op == KernelOp::kScatter;
    const auto mask = mask_operand(in);
    const int64_t size = byte_size(buffer.dtype);
    const auto count = static_cast<int64_t>(buffers_[number].size()) / size;
    const int32_t width = kernel_.type(stores ? in.operands[1] : in.results[0]).lanes;
    Lanes loaded;
    for (int32_t l = 0; l < width; ++l) {
      const auto lane = static_cast<size_t>(l);
      if (mask && lanes(in.operands[*mask])[lane].i == 0) {
        if (!stores) loaded.push_back(in.as<LoadPayload>().filler);
        continue;
      }
      const int64_t base = lanes(in.operands[0])[indexed ? lane : 0].i;
      const int64_t at = indexed ? base : base + l;
      if (at < 0 || at >= count) {
        return invalid_input(
            fmt::format("kernel '{}': {} at {} of buffer '{}', which has {} elements", kernel_.name,
                        kernel_op_name(in.op), at, buffer.name, count));
      }
      std::byte* address = buffers_[number].data() + at * size;
      if (stores) {
        write_element(buffer.dtype, lanes(in.operands[1])[lane], address);
      } else {
        loaded.push_back(read_element(buffer.dtype, address));
      }
    }
    if (!stores) lanes(in.results[0]) = std::move(loaded);
    return {};
  }

  /// What is asked for is there: beside a buffer there may be no page (append_request).
  Status run_request(const KernelInstruction& in) {
    const auto number = static_cast<size_t>(in.as<PrefetchPayload>().buffer);
    const KernelBuffer& buffer = kernel_.buffers[number];
    const int64_t at = int_of(in.operands[0]);
    const auto count = static_cast<int64_t>(buffers_[number].size()) / byte_size(buffer.dtype);
    if (at >= 0 && at < count) return {};
    return invalid_input(fmt::format("kernel '{}': {} at {} of buffer '{}', which has {} elements",
                                     kernel_.name, kernel_op_name(in.op), at, buffer.name, count));
  }

  void run_pure(const KernelInstruction& in) {
    std::vector<const ScalarLanes*> operands;
    for (const Reg r : in.operands) operands.push_back(&lanes(r));
    lanes(in.results[0]) = evaluate_pure(in, kernel_.type(in.results[0]), operands, arguments_);
  }

  const KernelFunction& kernel_;
  const std::vector<int64_t>& arguments_;
  std::vector<Lanes> values_;
  std::vector<std::span<std::byte>> buffers_;
  std::vector<std::vector<std::byte>> scratch_;
};

}  // namespace

Status execute_kernel(const KernelFunction& kernel,
                      const std::vector<std::span<std::byte>>& buffers,
                      const std::vector<int64_t>& arguments) {
  if (kernel.is_gpu()) return execute_gpu_kernel(kernel, buffers, arguments);
  KernelExecutor executor(kernel, arguments);
  WEFT_RETURN_IF_ERROR(executor.bind(buffers));
  return executor.run();
}

}  // namespace weft
