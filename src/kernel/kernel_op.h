#pragma once

#include <optional>
#include <string_view>

#include "kernel/kernel_function.h"

namespace weft {

/// "const", "argument", …: the words of a kernel's text.
std::string_view kernel_op_name(KernelOp op);
std::optional<KernelOp> parse_kernel_op(std::string_view name);

/// Position of the mask among the operands: after the offset (loads; of a cluster behind the rank,
/// too), or the offset and the value (stores); nullopt for other instructions and where there is no
/// mask.
std::optional<size_t> mask_operand(const KernelInstruction& instruction);

std::string_view position_name(KernelPosition position);
std::optional<KernelPosition> parse_position(std::string_view name);
std::string_view barrier_name(KernelBarrier scope);
std::optional<KernelBarrier> parse_barrier(std::string_view name);
std::string_view unit_name(KernelUnit unit);  ///< "m16n8k16_f16"
std::optional<KernelUnit> parse_unit(std::string_view name);

/// Whether every lane of the warp has to come to the instruction.
bool is_warp_operation(KernelOp op);
/// Whether the instruction may be dropped when nothing uses its results, and repeated.
bool is_pure(KernelOp op);

std::string_view buffer_kind_name(KernelBuffer::Kind kind);
std::optional<KernelBuffer::Kind> parse_buffer_kind(std::string_view name);

}  // namespace weft
