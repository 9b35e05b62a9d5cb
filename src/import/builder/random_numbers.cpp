#include "import/builder/random_numbers.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace weft::onnx {
namespace {

constexpr DType kWord = DType::kU32;
constexpr DType kWide = DType::kU64;

/// Two words for each element. A second pair of the same element has `again`.
std::array<ValueId, 2> draw(GraphBuilder& b, const RandomStream& stream, const Shape& shape,
                            bool again = false) {
  const int64_t count = element_count(shape).value_or(std::numeric_limits<int64_t>::max());
  if (count > int64_t{1} << 32)
    refuse_unsupported("more than 4,294,967,296 random numbers in one tensor");
  const uint64_t pair = 2 * uint64_t{stream.number} + (again ? 1 : 0);
  const ValueId first = b.scalar_int(kWide, static_cast<int64_t>(pair << 32));
  const ValueId counter = b.add(b.reshape(b.iota(kWide, {count}, 0), shape), first);
  return words_of(b, b.binary(ScalarOp::kThreefry, counter, stream.key));
}

/// The upper `bits` of a word, as a number of `type`, which holds them.
ValueId upper_bits(GraphBuilder& b, ValueId x, uint32_t bits, DType type) {
  return b.convert(b.binary(ScalarOp::kShr, x, b.scalar_int(kWord, 32 - bits)), type);
}

/// 53 bits of two words, in [0, 1).
ValueId wide_uniform(GraphBuilder& b, const std::array<ValueId, 2>& words) {
  const ValueId upper = upper_bits(b, words[0], 26, DType::kF64);
  const ValueId lower = upper_bits(b, words[1], 27, DType::kF64);
  return b.mul(b.add(b.mul(upper, std::ldexp(1.0, 27)), lower), std::ldexp(1.0, -53));
}

uint32_t fraction_bits(DType type) {
  return type == DType::kF16 ? 11 : type == DType::kBF16 ? 8 : 24;
}

/// `radius` in (0, 1], `turn` in [0, 1].
ValueId box_muller(GraphBuilder& b, ValueId radius, ValueId turn) {
  const ValueId r = b.sqrt(b.mul(b.log(radius), -2.0));
  return b.mul(r, b.unary(ScalarOp::kCos, b.mul(turn, 2 * std::numbers::pi)));
}

}  // namespace

std::array<ValueId, 2> words_of(GraphBuilder& b, ValueId x) {
  const ValueId upper = b.binary(ScalarOp::kShr, x, b.scalar_int(kWide, 32));
  return {b.convert(x, kWord), b.convert(upper, kWord)};
}

RandomStream new_stream(GraphBuilder& b) { return new_stream(b, b.seed()); }

RandomStream seeded_stream(GraphBuilder& b, uint64_t seed) {
  return new_stream(b, b.scalar_int(kWide, static_cast<int64_t>(seed)));
}

RandomStream new_stream(GraphBuilder& b, ValueId seed) {
  require(is_integer(b.dtype(seed)) && b.rank(seed) == 0, "a seed is one integer");
  RandomStream stream{{}, b.next_stream()};
  stream.key = b.convert(seed, kWide);
  for (const ValueId iteration : b.iterations())
    stream.key = b.binary(ScalarOp::kThreefry, b.convert(iteration, kWide), stream.key);
  return stream;
}

ValueId random_uniform(GraphBuilder& b, const RandomStream& stream, DType type,
                       const Shape& shape) {
  const std::array<ValueId, 2> words = draw(b, stream, shape);
  if (type == DType::kF64) return wide_uniform(b, words);
  const uint32_t bits = fraction_bits(type);
  const ValueId number = upper_bits(b, words[0], bits, DType::kF32);
  return b.convert(b.mul(number, std::ldexp(1.0, -static_cast<int>(bits))), type);
}

ValueId random_inside(GraphBuilder& b, const RandomStream& stream, const Shape& shape) {
  const ValueId number = upper_bits(b, draw(b, stream, shape)[0], 23, DType::kF32);
  return b.mul(b.add(number, 0.5), std::ldexp(1.0, -23));
}

ValueId random_normal(GraphBuilder& b, const RandomStream& stream, DType type, const Shape& shape) {
  const std::array<ValueId, 2> words = draw(b, stream, shape);
  if (type == DType::kF64) {
    const ValueId radius = b.add(wide_uniform(b, words), std::ldexp(1.0, -53));
    return box_muller(b, radius, wide_uniform(b, draw(b, stream, shape, /*again=*/true)));
  }
  const double step = std::ldexp(1.0, -32);
  const ValueId radius = b.mul(b.add(b.convert(words[0], DType::kF32), 1.0), step);
  const ValueId turn = b.mul(b.convert(words[1], DType::kF32), step);
  return b.convert(box_muller(b, radius, turn), type);
}

}  // namespace weft::onnx
