#pragma once

#include <optional>
#include <string_view>

#include "kernel/kernel_function.h"

namespace weft {

/// How many operands an instruction takes.
struct KernelOperands {
  enum class Beyond : uint8_t { kNothing, kMask, kAnything };
  size_t least = 0;
  Beyond beyond = Beyond::kNothing;  ///< what may follow those
};
/// Of what type an instruction's result is.
enum class KernelResult : uint8_t { kNone, kIndex, kSame, kElement, kClaimed, kOther };
/// In which kernels an instruction may stand.
enum class KernelPlace : uint8_t { kAnywhere, kCpu, kGpu, kWarp };

/// A row of kernel/ops.def, which explains the values.
struct KernelOpInfo {
  std::string_view name;
  KernelOperands operands;
  KernelResult result;
  KernelPlace place;
};
const KernelOpInfo& kernel_op_info(KernelOp op);

/// "const", "argument", …: the words of a kernel's text.
std::string_view kernel_op_name(KernelOp op);
std::optional<KernelOp> parse_kernel_op(std::string_view name);

/// The alternative of `op`, default-constructed.
KernelPayload default_payload(KernelOp op);
/// Whether `payload` holds the alternative of `op`.
bool payload_matches(KernelOp op, const KernelPayload& payload);

/// Position of the mask among the operands, the last of them; nullopt for instructions that take
/// none and where there is none.
std::optional<size_t> mask_operand(const KernelInstruction& instruction);
/// The buffer that the instruction reads, writes or asks for; of an asynchronous copy the one that
/// it writes. nullopt for those that touch no memory.
std::optional<int32_t> buffer_of(const KernelInstruction& instruction);

std::string_view position_name(KernelPosition position);
std::optional<KernelPosition> parse_position(std::string_view name);
std::string_view barrier_name(KernelBarrier scope);
std::optional<KernelBarrier> parse_barrier(std::string_view name);
std::string_view unit_name(KernelUnit unit);  ///< "m16n8k16_f16"
std::optional<KernelUnit> parse_unit(std::string_view name);

/// Whether every lane of the warp has to come to the instruction.
bool is_warp_operation(KernelOp op);

std::string_view buffer_kind_name(KernelBuffer::Kind kind);
std::optional<KernelBuffer::Kind> parse_buffer_kind(std::string_view name);

}  // namespace weft
