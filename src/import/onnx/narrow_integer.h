#pragma once

#include <optional>

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// An integer of 2 or 4 bits. weft has no such type: each element takes a byte, int8 or uint8, that
/// holds its value. What the type says beyond that is here, and Scope::narrow knows which values
/// have one.
struct NarrowInteger {
  int bits = 4;
  bool is_signed = false;

  int64_t lowest() const { return is_signed ? -(int64_t{1} << (bits - 1)) : 0; }
  int64_t highest() const { return (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1; }
  DType held_in() const { return is_signed ? DType::kI8 : DType::kU8; }
};

/// That of an ONNX type, if it is one.
std::optional<NarrowInteger> narrow_integer(int64_t onnx_type);

/// Bytes of `count` packed elements, and the elements, a byte each: the first one lies in a byte's
/// lowest bits.
int64_t packed_bytes(NarrowInteger type, int64_t count);
HostTensor unpacked(NarrowInteger type, const Shape& shape, std::span<const std::byte> packed);

/// v as an integer of `type`: truncated towards zero, then its lowest bits.
///     int4, -9.5  ->  -9  ->  7
ValueId wrapped(GraphBuilder& b, ValueId v, NarrowInteger type);

}  // namespace weft::onnx
