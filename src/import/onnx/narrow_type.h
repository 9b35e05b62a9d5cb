#pragma once

#include <optional>

#include "import/builder/graph_builder.h"
#include "import/builder/small_float.h"

namespace weft::onnx {

/// A type of at most 8 bits that weft has not: an integer of 2 or 4 bits, a float of 4 or 8. Each
/// element takes a byte: int8 or uint8 with the integer's value, or uint8 with the float's bits.
/// What the type says beyond that is here, and Scope::narrow knows which values have one.
struct NarrowType {
  int bits = 4;
  bool is_signed = false;
  const SmallFloat* as_float = nullptr;  ///< none: an integer

  /// Of an integer.
  int64_t lowest() const { return is_signed ? -(int64_t{1} << (bits - 1)) : 0; }
  int64_t highest() const { return (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1; }
  DType held_in() const { return is_signed ? DType::kI8 : DType::kU8; }
};

/// That of an ONNX type, if it is one.
std::optional<NarrowType> narrow_type_of(int64_t onnx_type);

/// Bytes of `count` packed elements, and the elements, a byte each: the first one lies in a byte's
/// lowest bits.
int64_t packed_bytes(NarrowType type, int64_t count);
HostTensor unpacked(NarrowType type, const Shape& shape, std::span<const std::byte> packed);

/// v as an integer of `type`: truncated towards zero, then its lowest bits.
///     int4, -9.5  ->  -9  ->  7
ValueId wrapped(GraphBuilder& b, ValueId v, NarrowType type);

}  // namespace weft::onnx
