#include "import/onnx/narrow_type.h"

namespace weft::onnx {

std::optional<NarrowType> narrow_type_of(int64_t onnx_type) {
  switch (onnx_type) {
    case 21:
      return NarrowType{4, false};
    case 22:
      return NarrowType{4, true};
    case 25:
      return NarrowType{2, false};
    case 26:
      return NarrowType{2, true};
    case 17:
      return NarrowType{8, false, &kFloat8E4M3Fn};
    case 18:
      return NarrowType{8, false, &kFloat8E4M3FnUz};
    case 19:
      return NarrowType{8, false, &kFloat8E5M2};
    case 20:
      return NarrowType{8, false, &kFloat8E5M2FnUz};
    case 23:
      return NarrowType{4, false, &kFloat4E2M1};
    case 24:
      return NarrowType{8, false, &kFloat8E8M0};
    default:
      return std::nullopt;
  }
}

int64_t packed_bytes(NarrowType type, int64_t count) {
  const int64_t each = 8 / type.bits;
  return count / each + (count % each != 0 ? 1 : 0);
}

HostTensor unpacked(NarrowType type, const Shape& shape, std::span<const std::byte> packed) {
  HostTensor out(type.held_in(), shape);
  const auto each = static_cast<size_t>(8 / type.bits);
  const unsigned mask = (1U << type.bits) - 1;
  const unsigned sign = type.is_signed ? 1U << (type.bits - 1) : 0;
  auto* to = reinterpret_cast<uint8_t*>(out.mutable_raw());
  for (size_t i = 0; i < static_cast<size_t>(out.size()); ++i) {
    const auto byte = static_cast<unsigned>(packed[i / each]);
    const unsigned bits = byte >> (i % each * static_cast<size_t>(type.bits)) & mask;
    to[i] = static_cast<uint8_t>((bits ^ sign) - sign);
  }
  return out;
}

ValueId wrapped(GraphBuilder& b, ValueId v, NarrowType type) {
  const auto number = [&](int64_t n) { return b.scalar_int(DType::kI32, n); };
  const int64_t mask = (int64_t{1} << type.bits) - 1;
  const int64_t sign = type.is_signed ? int64_t{1} << (type.bits - 1) : 0;
  v = b.binary(ScalarOp::kAnd, b.convert(v, DType::kI32), number(mask));
  if (sign != 0) v = b.sub(b.binary(ScalarOp::kXor, v, number(sign)), number(sign));
  return b.convert(v, type.held_in());
}

}  // namespace weft::onnx
