#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/scalar_op.h"

namespace weft {

/// C++ names of element types in generated text: f32 -> float, i64 -> s64, bool -> bool.
std::string_view cuda_type_name(DType type);
/// What a buffer of the type is declared as: bool lies in memory as u8.
std::string_view cuda_storage_name(DType type);
/// What stands in memory, as a value of the type, and back.
std::string cuda_from_storage(DType type, const std::string& stored);
std::string cuda_to_storage(DType type, const std::string& value);

/// A literal of the value's type; the shortest digits that read back as the same number.
std::string cuda_literal(const ScalarValue& value);

/// The operation on operands of one type (a select's branches; its condition is bool), as an
/// expression of C++ for both forms of the prelude. f16 and bf16 compute in float and round.
std::string cuda_scalar_text(ScalarOp op, const std::vector<std::string>& operands, DType operand,
                             DType result);

/// Definitions of the functions that an expression above may call, for those named in `text`, in
/// the order in which they may call each other.
std::string cuda_scalar_functions(std::string_view text);

}  // namespace weft
