#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weft {

/// Element types. float16 and bfloat16 are storage types: arithmetic on them is float32, rounded on
/// store.
enum class DType : uint8_t {
  kBool,  ///< one byte, 0 or 1
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
};

using Shape = std::vector<int64_t>;

int64_t byte_size(DType type);
bool is_float(DType type);
/// Integers, signed or not; bool is not one.
bool is_integer(DType type);
bool is_signed_integer(DType type);
/// "f32", "i64", "bool", …; parse_dtype is its inverse.
std::string_view dtype_name(DType type);
std::optional<DType> parse_dtype(std::string_view name);

/// Product of the extents; nullopt when it, or the byte size in `type`, does not fit in int64 or a
/// dimension is negative.
std::optional<int64_t> element_count(const Shape& shape);
std::optional<int64_t> checked_byte_size(DType type, const Shape& shape);

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);  ///< round to nearest even
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);  ///< round to nearest even; NaN stays NaN

}  // namespace weft
