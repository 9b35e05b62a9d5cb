#include "kernel/execution.h"

#include <cmath>
#include <cstring>

#include "support/check.h"
#include "support/storage.h"

namespace weft {

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

namespace {

/// Of the bits of a bfloat16.
ScalarValue from_bfloat16(const ScalarValue& bits) {
  return float_value(DType::kF32, bfloat16_to_float(static_cast<uint16_t>(bits.i)));
}

ScalarValue fused(const ScalarValue& a, const ScalarValue& b, const ScalarValue& c) {
  if (a.type == DType::kF64) return float_value(a.type, std::fma(a.f, b.f, c.f));
  return float_value(
      a.type, std::fma(static_cast<float>(a.f), static_cast<float>(b.f), static_cast<float>(c.f)));
}

/// Halves first: lane l with lane l + width/2.
ScalarValue reduced(Combiner combiner, ScalarLanes v) {
  for (size_t half = v.size() / 2; half >= 1; half /= 2) {
    for (size_t l = 0; l < half; ++l) v[l] = combine(combiner, v[l], v[l + half]);
  }
  return v[0];
}

}  // namespace

ScalarLanes evaluate_pure(const KernelInstruction& in, KernelType type,
                          const std::vector<const ScalarLanes*>& operands,
                          const std::vector<int64_t>& arguments) {
  ScalarLanes out(static_cast<size_t>(type.lanes));
  const auto operand = [&](size_t i) -> const ScalarLanes& { return *operands[i]; };
  for (size_t l = 0; l < out.size(); ++l) {
    switch (in.op) {
      case KernelOp::kConst:
        out[l] = in.as<ConstPayload>().value;
        break;
      case KernelOp::kArgument:
        out[l] =
            int_value(DType::kI64, arguments[static_cast<size_t>(in.as<ArgumentPayload>().number)]);
        break;
      case KernelOp::kApply: {
        ScalarValue values[3];
        for (size_t i = 0; i < in.operands.size(); ++i) values[i] = operand(i)[l];
        out[l] =
            evaluate_scalar(in.as<ApplyPayload>().op, {values, in.operands.size()}, type.dtype);
        break;
      }
      case KernelOp::kFma:
        out[l] = fused(operand(0)[l], operand(1)[l], operand(2)[l]);
        break;
      case KernelOp::kDot: {
        if (type.dtype == DType::kF32) {
          out[l] = operand(0)[l];
          for (const size_t at : {2 * l + 1, 2 * l})
            out[l] = fused(from_bfloat16(operand(1)[at]), from_bfloat16(operand(2)[at]), out[l]);
          break;
        }
        int64_t sum = operand(0)[l].i;
        const size_t depth = operand(1)[0].type == DType::kI16 ? 2 : 4;
        for (size_t at = depth * l; at < depth * (l + 1); ++at)
          sum += operand(1)[at].i * operand(2)[at].i;
        out[l] = int_value(DType::kI32, static_cast<int32_t>(sum));
        break;
      }
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
        out[l] = reduced(in.as<ReduceLanesPayload>().combiner, operand(0));
        break;
      case KernelOp::kExtract:
        out[l] = operand(0)[static_cast<size_t>(in.as<ExtractPayload>().lane)];
        break;
      case KernelOp::kShuffle: {
        const auto pick = static_cast<size_t>(in.as<ShufflePayload>().lanes[l]);
        const size_t width = operand(0).size();
        out[l] = pick < width ? operand(0)[pick] : operand(1)[pick - width];
        break;
      }
      case KernelOp::kLookUp: {
        const auto entry = static_cast<size_t>(operand(0)[l].i) % kLookUpEntries;
        const int32_t bits = in.as<LookUpPayload>().entries[entry];
        out[l] = is_float(type.dtype) ? float_value(type.dtype, std::bit_cast<float>(bits))
                                      : int_value(type.dtype, bits);
        break;
      }
      default:
        throw_internal_error(__FILE__, __LINE__, "instruction", "out of range");
    }
  }
  return out;
}

}  // namespace weft
