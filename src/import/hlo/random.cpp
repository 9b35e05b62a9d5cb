#include <fmt/format.h>

#include <array>
#include <utility>

#include "import/builder/random_numbers.h"
#include "import/hlo/translator.h"

// Counter-based generators: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
// A state is a key and a counter; each step encrypts one value of the counter.

namespace weft::hlo {
namespace {

constexpr DType kWord = DType::kU32;
constexpr DType kWide = DType::kU64;

ValueId word(GraphBuilder& b, uint32_t value) {
  return b.scalar_int(kWord, static_cast<int64_t>(value));
}

ValueId wide(GraphBuilder& b, int64_t value) { return b.scalar_int(kWide, value); }

ValueId exclusive_or(GraphBuilder& b, ValueId x, ValueId y) {
  return b.binary(ScalarOp::kXor, x, y);
}

ValueId join_halves(GraphBuilder& b, ValueId low, ValueId high) {
  const ValueId shifted = b.binary(ScalarOp::kShl, b.convert(high, kWide), wide(b, 32));
  return b.binary(ScalarOp::kOr, b.convert(low, kWide), shifted);
}

/// Philox-4x32 with 10 rounds.
std::array<ValueId, 4> philox(GraphBuilder& b, std::array<ValueId, 4> x,
                              std::array<ValueId, 2> key) {
  const auto product = [&](ValueId v, int64_t factor) {
    return onnx::words_of(b, b.mul(b.convert(v, kWide), wide(b, factor)));
  };
  for (int i = 0; i < 10; ++i) {
    const auto [low0, high0] = product(x[0], 0xD2511F53);
    const auto [low1, high1] = product(x[2], 0xCD9E8D57);
    x = {exclusive_or(b, exclusive_or(b, high1, x[1]), key[0]), low1,
         exclusive_or(b, exclusive_or(b, high0, x[3]), key[1]), low0};
    key = {b.add(key[0], word(b, 0x9E3779B9)), b.add(key[1], word(b, 0xBB67AE85))};
  }
  return x;
}

int64_t count_of(InstructionContext& n, const Shape& shape) {
  const auto count = element_count(shape);
  n.require(count.has_value(), "so many numbers");
  return *count;
}

struct Generated {
  ValueId bits = kNoValue;     ///< u32 or u64
  std::vector<ValueId> state;  ///< u64 scalars
};

/// counter, counter + 1, …
ValueId counters(GraphBuilder& b, ValueId counter, int64_t count) {
  return b.add(b.iota(kWide, {count}, 0), counter);
}

/// The axis of which both words of a step fill neighbouring places: the first of even extent, else
/// the longest.
size_t paired_axis(const Shape& shape) {
  size_t longest = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] % 2 == 0) return i;
    if (shape[i] > shape[longest]) longest = i;
  }
  return longest;
}

Generated generate_threefry(InstructionContext& n, const std::vector<ValueId>& state, Shape shape,
                            bool is_wide) {
  GraphBuilder& b = n.b;
  n.require(state.size() == 2, "Threefry has a state of u64[2]");
  const bool is_scalar = shape.empty();
  if (is_scalar) shape = {1};
  const size_t axis = paired_axis(shape);
  Shape steps = shape;
  if (!is_wide) steps[axis] = (steps[axis] + 1) / 2;
  const int64_t count = count_of(n, steps);
  const ValueId drawn = b.binary(ScalarOp::kThreefry, counters(b, state[1], count), state[0]);
  Generated g{kNoValue, {state[0], b.add(state[1], wide(b, count))}};
  if (is_wide) {
    g.bits = b.reshape(drawn, steps);
  } else {
    const auto [low, high] = onnx::words_of(b, drawn);
    const auto at = static_cast<int64_t>(axis);
    const ValueId pairs = b.concat({b.unsqueeze(b.reshape(low, steps), {at + 1}),
                                    b.unsqueeze(b.reshape(high, steps), {at + 1})},
                                   at + 1);
    steps[axis] *= 2;
    g.bits = b.slice_axis(b.reshape(pairs, steps), at, 0, shape[axis]);
  }
  if (is_scalar) g.bits = b.reshape(g.bits, {});
  return g;
}

/// The counter has 128 bits: of a state of two words the key is its upper half.
Generated generate_philox(InstructionContext& n, const std::vector<ValueId>& state,
                          const Shape& shape, bool is_wide) {
  GraphBuilder& b = n.b;
  n.require(state.size() == 2 || state.size() == 3, "Philox has a state of u64[2] or u64[3]");
  const int64_t count = count_of(n, shape);
  const int64_t words = is_wide ? 2 * count : count;
  const int64_t steps = (words + 3) / 4;
  const ValueId upper = state.size() == 2 ? state[0] : state[2];
  const auto carried = [&](ValueId sum) {
    const ValueId overflows = b.binary(ScalarOp::kLt, sum, state[1]);
    return b.select(overflows, b.add(upper, wide(b, 1)), upper);
  };
  const ValueId lower = counters(b, state[1], steps);
  const auto [w0, w1] = onnx::words_of(b, lower);
  const auto [w2, w3] = onnx::words_of(b, carried(lower));
  std::vector<ValueId> columns;
  for (const ValueId v : philox(b, {w0, w1, w2, w3}, onnx::words_of(b, state[0]))) {
    columns.push_back(b.unsqueeze(v, {1}));
  }
  ValueId bits = b.slice_axis(b.reshape(b.concat(columns, 1), {4 * steps}), 0, 0, words);
  if (is_wide) {
    const ValueId pairs = b.reshape(bits, {count, 2});
    bits = join_halves(b, b.pick(pairs, 1, 0), b.pick(pairs, 1, 1));
  }
  const ValueId next = b.add(state[1], wide(b, steps));
  Generated g{b.reshape(bits, shape), {state[0], next}};
  if (state.size() == 3) g.state.push_back(carried(next));
  return g;
}

/// The default is Philox, as XLA has it on CPUs.
void translate_rng_bit_generator(InstructionContext& n) {
  n.expect_operands(1);
  const ValueId given = n.operand(0);
  n.require(n.b.dtype(given) == kWide && n.b.rank(given) == 1 && n.b.extent(given, 0) <= 3,
            "the state is no u64[2] or u64[3]");
  const HloShape& result = n.shape();
  n.require(result.kind == HloShape::Kind::kTuple && result.elements.size() == 2 &&
                result.elements[1].dtype && is_integer(*result.elements[1].dtype),
            "gives a state and integers");
  n.importer().spend(200);
  std::vector<ValueId> state;
  for (int64_t i = 0; i < n.b.extent(given, 0); ++i) state.push_back(n.b.pick(given, 0, i));
  const DType type = *result.elements[1].dtype;
  const bool is_wide = byte_size(type) == 8;
  const std::string_view algorithm = n.word("algorithm", "rng_default");
  Generated g;
  if (algorithm == "rng_three_fry") {
    g = generate_threefry(n, state, result.elements[1].dims, is_wide);
  } else if (algorithm == "rng_philox" || algorithm == "rng_default") {
    g = generate_philox(n, state, result.elements[1].dims, is_wide);
  } else {
    refuse_unsupported(fmt::format("the algorithm '{}'", algorithm));
  }
  for (ValueId& v : g.state) v = n.b.unsqueeze(v, {0});
  const bool same_width = byte_size(type) == byte_size(n.b.dtype(g.bits));
  n.set_results(
      {n.b.concat(g.state, 0), same_width ? n.b.bitcast(g.bits, type) : n.b.convert(g.bits, type)});
}

/// From `low` on, below `high`.
ValueId uniform_integers(GraphBuilder& b, const onnx::RandomStream& stream, ValueId low,
                         ValueId high, const Shape& shape) {
  const ValueId first = b.convert(low, DType::kI64);
  const ValueId span = b.convert(b.sub(b.convert(high, DType::kI64), first), DType::kF64);
  const ValueId drawn = b.mul(onnx::random_uniform(b, stream, DType::kF64, shape), span);
  return b.convert(b.add(b.convert(drawn, DType::kI64), first), b.dtype(low));
}

/// The state is not part of the module: each run draws others.
void translate_rng(InstructionContext& n) {
  n.expect_operands(2);
  GraphBuilder& b = n.b;
  const ValueId first = n.operand(0), second = n.operand(1);
  n.require(b.type(first) == TensorType{n.dtype(), {}} && b.type(second) == b.type(first),
            "the distribution's parameters are scalars of the result's type");
  n.importer().spend(200);
  const std::string_view distribution = n.word("distribution");
  const bool is_normal = distribution == "rng_normal";
  if (!is_normal && distribution != "rng_uniform")
    refuse_unsupported(fmt::format("the distribution '{}'", distribution));
  const onnx::RandomStream stream = onnx::new_stream(b);
  if (is_float(n.dtype())) {
    const ValueId drawn = is_normal ? onnx::random_normal(b, stream, n.dtype(), n.dims())
                                    : onnx::random_uniform(b, stream, n.dtype(), n.dims());
    const ValueId scale = is_normal ? second : b.sub(second, first);
    return n.set_result(b.add(b.mul(drawn, scale), first));
  }
  if (is_normal || !is_integer(n.dtype())) refuse_unsupported("random numbers of this type");
  n.set_result(uniform_integers(b, stream, first, second, n.dims()));
}

const Translator kRows[] = {
    {"rng-bit-generator", translate_rng_bit_generator},
    {"rng", translate_rng},
};

}  // namespace

TranslatorTable random_translators() { return kRows; }

}  // namespace weft::hlo
