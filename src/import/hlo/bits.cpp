#include <algorithm>

#include "import/hlo/total_order.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

DType with_sign(DType type, bool is_signed) {
  switch (byte_size(type)) {
    case 1:
      return is_signed ? DType::kI8 : DType::kU8;
    case 2:
      return is_signed ? DType::kI16 : DType::kU16;
    case 4:
      return is_signed ? DType::kI32 : DType::kU32;
    default:
      return is_signed ? DType::kI64 : DType::kU64;
  }
}

void translate_not(InstructionContext& n) {
  n.expect_operands(1);
  n.set_result(n.b.unary(ScalarOp::kNot, n.operand(0)));
}

template <ScalarOp kOp>
void translate_binary(InstructionContext& n) {
  n.expect_operands(2);
  n.set_result(n.b.binary(kOp, n.operand(0), n.operand(1)));
}

void expect_integer(InstructionContext& n, ValueId x) {
  n.require(is_integer(n.b.dtype(x)), "is defined on integers alone");
}

/// A shift of the bits as a number of the other signedness.
void shift_right(InstructionContext& n, bool is_signed) {
  n.expect_operands(2);
  const ValueId x = n.operand(0);
  expect_integer(n, x);
  const DType type = with_sign(n.b.dtype(x), is_signed);
  ValueId amount = n.b.bitcast(n.operand(1), type);
  if (is_signed) {  // from the width on only the sign is left
    const int64_t last = 8 * byte_size(type) - 1;
    const ValueId limit = n.b.scalar_int(type, last);
    const ValueId small = n.b.binary(ScalarOp::kLe, amount, limit);
    const ValueId positive = n.b.binary(ScalarOp::kGe, amount, n.b.scalar_int(type, 0));
    amount = n.b.select(n.b.binary(ScalarOp::kAnd, small, positive), amount, limit);
  }
  const ValueId shifted = n.b.binary(ScalarOp::kShr, n.b.bitcast(x, type), amount);
  n.set_result(n.b.bitcast(shifted, n.b.dtype(x)));
}

void translate_shift_right_logical(InstructionContext& n) { shift_right(n, false); }
void translate_shift_right_arithmetic(InstructionContext& n) { shift_right(n, true); }

ValueId constant_u64(GraphBuilder& b, uint64_t bits) {
  return b.scalar_int(DType::kU64, static_cast<int64_t>(bits));
}

ValueId shifted(GraphBuilder& b, ValueId x, int64_t amount) {
  return b.binary(ScalarOp::kShr, x, b.scalar_int(DType::kU64, amount));
}

ValueId masked(GraphBuilder& b, ValueId x, uint64_t mask) {
  return b.binary(ScalarOp::kAnd, x, constant_u64(b, mask));
}

/// The bits of a u64 that are set, added up in parallel.
ValueId count_bits(GraphBuilder& b, ValueId x) {
  x = b.sub(x, masked(b, shifted(b, x, 1), 0x5555555555555555));
  x = b.add(masked(b, x, 0x3333333333333333), masked(b, shifted(b, x, 2), 0x3333333333333333));
  x = masked(b, b.add(x, shifted(b, x, 4)), 0x0f0f0f0f0f0f0f0f);
  return shifted(b, b.mul(x, constant_u64(b, 0x0101010101010101)), 56);
}

ValueId widened(InstructionContext& n, ValueId x) {
  expect_integer(n, x);
  return n.b.convert(n.b.bitcast(x, with_sign(n.b.dtype(x), false)), DType::kU64);
}

void translate_population_count(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId x = n.operand(0);
  n.set_result(n.b.convert(count_bits(n.b, widened(n, x)), n.b.dtype(x)));
}

void translate_leading_zeros(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId x = n.operand(0);
  ValueId filled = widened(n, x);  // all bits below the first one set
  for (int64_t amount = 1; amount < 64; amount *= 2) {
    filled = n.b.binary(ScalarOp::kOr, filled, shifted(n.b, filled, amount));
  }
  const auto width = static_cast<uint64_t>(8 * byte_size(n.b.dtype(x)));
  const ValueId zeros = n.b.sub(constant_u64(n.b, width), count_bits(n.b, filled));
  n.set_result(n.b.convert(zeros, n.b.dtype(x)));
}

/// [n, k] of few bits -> [n] of k times as many, the first lowest.
ValueId join_bits(InstructionContext& n, ValueId x, DType to) {
  const int64_t width = 8 * byte_size(n.b.dtype(x));
  const DType wide = with_sign(to, false);
  const ValueId bits = n.b.bitcast(x, with_sign(n.b.dtype(x), false));
  ValueId joined = kNoValue;
  for (int64_t k = 0; k * width < 8 * byte_size(to); ++k) {
    const ValueId part = n.b.convert(n.b.pick(bits, -1, k), wide);
    const ValueId placed = n.b.binary(ScalarOp::kShl, part, n.b.scalar_int(wide, k * width));
    joined = k == 0 ? part : n.b.binary(ScalarOp::kOr, joined, placed);
  }
  return n.b.bitcast(joined, to);
}

/// [n] of many bits -> [n, k], the lowest first.
ValueId split_bits(InstructionContext& n, ValueId x, DType to) {
  const int64_t width = 8 * byte_size(to);
  const DType wide = with_sign(n.b.dtype(x), false);
  const ValueId bits = n.b.bitcast(x, wide);
  std::vector<ValueId> parts;
  for (int64_t k = 0; k * width < 8 * byte_size(wide); ++k) {
    const ValueId part = n.b.binary(ScalarOp::kShr, bits, n.b.scalar_int(wide, k * width));
    parts.push_back(n.b.unsqueeze(n.b.convert(part, with_sign(to, false)), {-1}));
  }
  return n.b.bitcast(n.b.concat(parts, -1), to);
}

void translate_bitcast_convert(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId x = n.operand(0);
  const int64_t from = byte_size(n.b.dtype(x)), to = byte_size(n.dtype());
  if (from == to) return n.set_result(n.b.bitcast(x, n.dtype()));
  if (n.frame().lanes != nullptr) refuse_unsupported("an array made of each element");
  if (from > to) return n.set_result(split_bits(n, x, n.dtype()));
  n.require(n.b.rank(x) > 0 && n.b.extent(x, -1) * from == to, "the last axis does not fit");
  n.set_result(join_bits(n, x, n.dtype()));
}

const Translator kRows[] = {
    {"not", translate_not, true},
    {"and", translate_binary<ScalarOp::kAnd>, true},
    {"or", translate_binary<ScalarOp::kOr>, true},
    {"xor", translate_binary<ScalarOp::kXor>, true},
    {"shift-left", translate_binary<ScalarOp::kShl>, true},
    {"shift-right-logical", translate_shift_right_logical, true},
    {"shift-right-arithmetic", translate_shift_right_arithmetic, true},
    {"popcnt", translate_population_count, true},
    {"count-leading-zeros", translate_leading_zeros, true},
    {"bitcast-convert", translate_bitcast_convert, true},
};

}  // namespace

ValueId total_order_key(GraphBuilder& b, ValueId x) {
  const DType type = with_sign(b.dtype(x), true);
  const ValueId bits = b.bitcast(x, type);
  const int64_t width = 8 * byte_size(type);
  const auto magnitude = static_cast<int64_t>((uint64_t{1} << (width - 1)) - 1);
  const ValueId flipped = b.binary(ScalarOp::kXor, bits, b.scalar_int(type, magnitude));
  return b.select(b.binary(ScalarOp::kLt, bits, b.scalar_int(type, 0)), flipped, bits);
}

TranslatorTable bit_translators() { return kRows; }

}  // namespace weft::hlo
