#pragma once

#include <optional>
#include <string_view>

#include "kernel/kernel_function.h"

namespace weft {

/// "const", "argument", …: the words of a kernel's text.
std::string_view kernel_op_name(KernelOp op);
std::optional<KernelOp> parse_kernel_op(std::string_view name);

/// Position of the mask among the operands: after the offset (loads), or the offset and the value
/// (stores); nullopt for other instructions and where there is no mask.
std::optional<size_t> mask_operand(const KernelInstruction& instruction);

std::string_view buffer_kind_name(KernelBuffer::Kind kind);
std::optional<KernelBuffer::Kind> parse_buffer_kind(std::string_view name);

}  // namespace weft
