#include "kernel/kernel_op.h"

#include <array>
#include <iterator>

#include "support/check.h"

namespace weft {
namespace {

constexpr KernelOperands exactly(size_t n) { return {n, KernelOperands::Beyond::kNothing}; }
constexpr KernelOperands maskable(size_t n) { return {n, KernelOperands::Beyond::kMask}; }
constexpr KernelOperands at_least(size_t n) { return {n, KernelOperands::Beyond::kAnything}; }

constexpr KernelOpInfo kOps[] = {
#define WEFT_KERNEL_OP(id, name, operands, result, place, Payload) \
  {name, operands, KernelResult::result, KernelPlace::place},
#include "kernel/ops.def"
#undef WEFT_KERNEL_OP
};

constexpr std::array<std::string_view, 5> kKinds = {"input", "output", "workspace", "scratch",
                                                    "shared"};
constexpr std::array<std::string_view, 3> kPositions = {"lane", "warp", "block"};
constexpr std::array<std::string_view, 4> kBarriers = {"warp", "block", "cluster", "grid"};
constexpr std::array<std::string_view, 5> kUnits = {"m16n8k16_f16", "m16n8k16_bf16", "m16n8k8_tf32",
                                                    "m64k16_f16", "m64k16_bf16"};

template <typename E, size_t kCount>
std::optional<E> find_name(const std::array<std::string_view, kCount>& names,
                           std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

const KernelOpInfo& kernel_op_info(KernelOp op) {
  const auto index = static_cast<size_t>(op);
  WEFT_CHECK(index < std::size(kOps), "instruction out of range");
  return kOps[index];
}

std::string_view kernel_op_name(KernelOp op) { return kernel_op_info(op).name; }

std::optional<KernelOp> parse_kernel_op(std::string_view name) {
  for (size_t i = 0; i < std::size(kOps); ++i) {
    if (kOps[i].name == name) return static_cast<KernelOp>(i);
  }
  return std::nullopt;
}

KernelPayload default_payload(KernelOp op) {
  switch (op) {
#define WEFT_KERNEL_OP(id, name, operands, result, place, Payload) \
  case KernelOp::id:                                               \
    return Payload{};
#include "kernel/ops.def"
#undef WEFT_KERNEL_OP
  }
  throw_internal_error(__FILE__, __LINE__, "instruction", "out of range");
}

bool payload_matches(KernelOp op, const KernelPayload& payload) {
  switch (op) {
#define WEFT_KERNEL_OP(id, name, operands, result, place, Payload) \
  case KernelOp::id:                                               \
    return std::holds_alternative<Payload>(payload);
#include "kernel/ops.def"
#undef WEFT_KERNEL_OP
  }
  return false;
}

std::string_view position_name(KernelPosition p) { return kPositions[static_cast<size_t>(p)]; }
std::optional<KernelPosition> parse_position(std::string_view name) {
  return find_name<KernelPosition>(kPositions, name);
}
std::string_view barrier_name(KernelBarrier b) { return kBarriers[static_cast<size_t>(b)]; }
std::optional<KernelBarrier> parse_barrier(std::string_view name) {
  return find_name<KernelBarrier>(kBarriers, name);
}
std::string_view unit_name(KernelUnit u) { return kUnits[static_cast<size_t>(u)]; }
std::optional<KernelUnit> parse_unit(std::string_view name) {
  return find_name<KernelUnit>(kUnits, name);
}

bool is_warp_operation(KernelOp op) { return kernel_op_info(op).place == KernelPlace::kWarp; }

std::optional<size_t> mask_operand(const KernelInstruction& in) {
  const KernelOperands& operands = kernel_op_info(in.op).operands;
  const bool masked =
      operands.beyond == KernelOperands::Beyond::kMask && in.operands.size() > operands.least;
  return masked ? std::optional(operands.least) : std::nullopt;
}

std::optional<int32_t> buffer_of(const KernelInstruction& in) {
  return std::visit(
      [](const auto& payload) -> std::optional<int32_t> {
        if constexpr (requires { payload.buffer; }) {
          return payload.buffer;
        } else if constexpr (requires { payload.to; }) {
          return payload.to;
        } else {
          return std::nullopt;
        }
      },
      in.payload);
}

std::string_view buffer_kind_name(KernelBuffer::Kind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::optional<KernelBuffer::Kind> parse_buffer_kind(std::string_view name) {
  return find_name<KernelBuffer::Kind>(kKinds, name);
}

}  // namespace weft
