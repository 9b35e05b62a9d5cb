#pragma once

#include <cstdint>

#include "support/check.h"
#include "support/dtype.h"

namespace weft {

/// How an element type lies in memory (Raw) and what arithmetic sees of it (Value): f16 and bf16
/// compute as float, a bool byte other than 0 is true. store(load(x)) keeps the bits of every
/// number; a signalling NaN may become quiet.
template <DType kElement, typename RawType, typename ValueType = RawType>
struct PlainStorage {
  static constexpr DType kType = kElement;
  using Raw = RawType;
  using Value = ValueType;
  static Value load(Raw raw) { return raw; }
  static Raw store(Value value) { return value; }
};

template <DType kElement>
struct Storage;
template <>
struct Storage<DType::kBool> : PlainStorage<DType::kBool, uint8_t, bool> {
  static bool load(uint8_t raw) { return raw != 0; }
  static uint8_t store(bool value) { return value ? 1 : 0; }
};
template <>
struct Storage<DType::kI8> : PlainStorage<DType::kI8, int8_t> {};
template <>
struct Storage<DType::kI16> : PlainStorage<DType::kI16, int16_t> {};
template <>
struct Storage<DType::kI32> : PlainStorage<DType::kI32, int32_t> {};
template <>
struct Storage<DType::kI64> : PlainStorage<DType::kI64, int64_t> {};
template <>
struct Storage<DType::kU8> : PlainStorage<DType::kU8, uint8_t> {};
template <>
struct Storage<DType::kU16> : PlainStorage<DType::kU16, uint16_t> {};
template <>
struct Storage<DType::kU32> : PlainStorage<DType::kU32, uint32_t> {};
template <>
struct Storage<DType::kU64> : PlainStorage<DType::kU64, uint64_t> {};
template <>
struct Storage<DType::kF16> : PlainStorage<DType::kF16, uint16_t, float> {
  static float load(uint16_t raw) { return half_to_float(raw); }
  static uint16_t store(float value) { return float_to_half(value); }
};
template <>
struct Storage<DType::kBF16> : PlainStorage<DType::kBF16, uint16_t, float> {
  static float load(uint16_t raw) { return bfloat16_to_float(raw); }
  static uint16_t store(float value) { return float_to_bfloat16(value); }
};
template <>
struct Storage<DType::kF32> : PlainStorage<DType::kF32, float> {};
template <>
struct Storage<DType::kF64> : PlainStorage<DType::kF64, double> {};

/// Calls body(Storage<type>{}), a generic lambda: one instance of its code for each element type.
template <typename Body>
decltype(auto) with_storage(DType type, Body&& body) {
  switch (type) {
    case DType::kBool:
      return body(Storage<DType::kBool>{});
    case DType::kI8:
      return body(Storage<DType::kI8>{});
    case DType::kI16:
      return body(Storage<DType::kI16>{});
    case DType::kI32:
      return body(Storage<DType::kI32>{});
    case DType::kI64:
      return body(Storage<DType::kI64>{});
    case DType::kU8:
      return body(Storage<DType::kU8>{});
    case DType::kU16:
      return body(Storage<DType::kU16>{});
    case DType::kU32:
      return body(Storage<DType::kU32>{});
    case DType::kU64:
      return body(Storage<DType::kU64>{});
    case DType::kF16:
      return body(Storage<DType::kF16>{});
    case DType::kBF16:
      return body(Storage<DType::kBF16>{});
    case DType::kF32:
      return body(Storage<DType::kF32>{});
    case DType::kF64:
      return body(Storage<DType::kF64>{});
  }
  throw_internal_error(__FILE__, __LINE__, "element type", "out of range");
}

/// An unsigned integer of the element's width, for code that only moves bits.
template <typename Body>
decltype(auto) with_width(int64_t bytes, Body&& body) {
  switch (bytes) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    case 8:
      return body(uint64_t{});
    default:
      throw_internal_error(__FILE__, __LINE__, "element width", "out of range");
  }
}

}  // namespace weft
