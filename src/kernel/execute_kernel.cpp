#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "kernel/kernel_function.h"
#include "kernel/kernel_op.h"
#include "support/check.h"
#include "support/storage.h"

namespace weft {
namespace {

ScalarValue read_element(DType type, const std::byte* at) {
  return with_storage(type, [&](auto s) {
    using S = decltype(s);
    typename S::Raw raw;
    std::memcpy(&raw, at, sizeof(raw));
    ScalarValue v;
    v.type = type;
    if constexpr (std::is_floating_point_v<typename S::Value>) {
      v.f = S::load(raw);
    } else {
      v.i = static_cast<int64_t>(S::load(raw));
    }
    return v;
  });
}

void write_element(DType type, const ScalarValue& value, std::byte* at) {
  with_storage(type, [&](auto s) {
    using S = decltype(s);
    typename S::Raw raw;
    if constexpr (std::is_same_v<typename S::Value, bool>) {
      raw = S::store(value.i != 0);
    } else if constexpr (std::is_floating_point_v<typename S::Value>) {
      raw = S::store(static_cast<typename S::Value>(value.f));
    } else {
      raw = S::store(static_cast<typename S::Value>(value.i));
    }
    std::memcpy(at, &raw, sizeof(raw));
  });
}

ScalarValue fused(const ScalarValue& a, const ScalarValue& b, const ScalarValue& c) {
  if (a.type == DType::kF64) return float_value(a.type, std::fma(a.f, b.f, c.f));
  return float_value(
      a.type, std::fma(static_cast<float>(a.f), static_cast<float>(b.f), static_cast<float>(c.f)));
}

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
  using Lanes = std::vector<ScalarValue>;

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
    const auto number = static_cast<size_t>(in.buffer);
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
        if (!stores) loaded.push_back(in.value);
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

  void run_pure(const KernelInstruction& in) {
    const KernelType type = kernel_.type(in.results[0]);
    Lanes out(static_cast<size_t>(type.lanes));
    const auto operand = [&](size_t i) -> const Lanes& { return lanes(in.operands[i]); };
    for (size_t l = 0; l < out.size(); ++l) {
      switch (in.op) {
        case KernelOp::kConst:
          out[l] = in.value;
          break;
        case KernelOp::kArgument:
          out[l] = int_value(DType::kI64, arguments_[static_cast<size_t>(in.index)]);
          break;
        case KernelOp::kApply: {
          ScalarValue values[3];
          for (size_t i = 0; i < in.operands.size(); ++i) values[i] = operand(i)[l];
          out[l] = evaluate_scalar(in.scalar_op, {values, in.operands.size()}, type.dtype);
          break;
        }
        case KernelOp::kFma:
          out[l] = fused(operand(0)[l], operand(1)[l], operand(2)[l]);
          break;
        case KernelOp::kBroadcast:
          out[l] = operand(0)[0];
          break;
        case KernelOp::kRamp:
          out[l] = int_value(type.dtype, static_cast<int64_t>(l));
          break;
        case KernelOp::kLaneMask:
          out[l] = int_value(DType::kBool, static_cast<int64_t>(l) < operand(0)[0].i ? 1 : 0);
          break;
        case KernelOp::kReduceLanes:
          out[l] = reduced(in.combiner, operand(0));
          break;
        case KernelOp::kExtract:
          out[l] = operand(0)[static_cast<size_t>(in.index)];
          break;
        case KernelOp::kShuffle: {
          const auto pick = static_cast<size_t>(in.lanes_picked[l]);
          const size_t width = operand(0).size();
          out[l] = pick < width ? operand(0)[pick] : operand(1)[pick - width];
          break;
        }
        default:
          throw_internal_error(__FILE__, __LINE__, "instruction", "out of range");
      }
    }
    lanes(in.results[0]) = std::move(out);
  }

  /// Halves first: lane l with lane l + width/2.
  static ScalarValue reduced(Combiner combiner, Lanes v) {
    for (size_t half = v.size() / 2; half >= 1; half /= 2) {
      for (size_t l = 0; l < half; ++l) v[l] = combine(combiner, v[l], v[l + half]);
    }
    return v[0];
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
  KernelExecutor executor(kernel, arguments);
  WEFT_RETURN_IF_ERROR(executor.bind(buffers));
  return executor.run();
}

}  // namespace weft
