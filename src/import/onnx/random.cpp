#include <bit>
#include <optional>

#include "import/builder/random_numbers.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// Without the attribute a node draws other numbers in each run, with it the same ones.
RandomStream stream_of(OpContext& n) {
  if (!n.has_attr("seed")) return new_stream(n.b);
  return seeded_stream(n.b, std::bit_cast<uint32_t>(n.float_attr("seed")));
}

DType float_type(OpContext& n, DType otherwise) {
  const DType type = n.dtype_attr("dtype", otherwise);
  if (!is_float(type)) n.unsupported("random numbers that are no floats");
  return type;
}

void set_normal(OpContext& n, DType type, const Shape& shape) {
  const ValueId drawn = random_normal(n.b, stream_of(n), type, shape);
  const float mean = n.float_attr("mean", 0), scale = n.float_attr("scale", 1);
  n.set_output(0, n.b.add(n.b.mul(drawn, static_cast<double>(scale)), static_cast<double>(mean)));
}

void set_uniform(OpContext& n, DType type, const Shape& shape) {
  const ValueId drawn = random_uniform(n.b, stream_of(n), type, shape);
  const double low = n.float_attr("low", 0), high = n.float_attr("high", 1);
  n.set_output(0, n.b.add(n.b.mul(drawn, high - low), low));
}

/// The attribute `shape` must be there; the builder refuses what no tensor has.
Shape shape_attr(OpContext& n) {
  std::optional<std::vector<int64_t>> shape = n.ints_attr("shape");
  n.require(shape.has_value(), "has no shape");
  for (const int64_t extent : *shape) n.require(extent >= 0, "an extent is negative");
  return *shape;
}

void translate_random_normal(OpContext& n) {
  set_normal(n, float_type(n, DType::kF32), shape_attr(n));
}

void translate_random_uniform(OpContext& n) {
  set_uniform(n, float_type(n, DType::kF32), shape_attr(n));
}

DType type_like(OpContext& n) {
  const DType given = n.b.dtype(n.input(0));
  return float_type(n, is_float(given) ? given : DType::kF32);
}

void translate_random_normal_like(OpContext& n) {
  const Shape shape = n.b.shape(n.input(0));
  set_normal(n, type_like(n), shape);
}

void translate_random_uniform_like(OpContext& n) {
  const Shape shape = n.b.shape(n.input(0));
  set_uniform(n, type_like(n), shape);
}

/// The type that numbers are drawn in to be compared with a probability.
DType drawn_type(DType probability) {
  return probability == DType::kF64 ? DType::kF64 : DType::kF32;
}

/// True with the probability that each element gives.
ValueId happens(OpContext& n, ValueId probability, const Shape& shape) {
  const DType type = drawn_type(n.b.dtype(probability));
  const ValueId drawn = random_uniform(n.b, stream_of(n), type, shape);
  return n.b.binary(ScalarOp::kLt, drawn, n.b.convert(probability, type));
}

void translate_bernoulli(OpContext& n) {
  const ValueId p = n.input(0);
  const Shape shape = n.b.shape(p);
  const DType type = n.dtype_attr("dtype", n.b.dtype(p));
  n.set_output(0, n.b.convert(happens(n, p, shape), type));
}

/// Gumbel's trick: log p, raised by noise of the distribution -log(-log(u)), is largest at an
/// element with probability p.
void translate_multinomial(OpContext& n) {
  GraphBuilder& b = n.b;
  const ValueId logits = n.input(0);
  n.require(b.rank(logits) == 2 && is_float(b.dtype(logits)), "the input must be [batch, classes]");
  const int64_t samples = n.int_attr("sample_size", 1);
  n.require(samples >= 1, "sample_size must be positive");
  n.require(b.extent(logits, 1) >= 1, "there are no classes");
  const DType type = n.dtype_attr("dtype", DType::kI32);
  if (type != DType::kI32 && type != DType::kI64) n.unsupported("samples of this type");
  const Shape shape = {b.extent(logits, 0), samples, b.extent(logits, 1)};
  const ValueId drawn = random_inside(b, stream_of(n), shape);
  const ValueId noise = b.neg(b.log(b.neg(b.log(drawn))));
  const ValueId raised = b.add(b.unsqueeze(b.convert(logits, DType::kF32), {1}), noise);
  n.set_output(0, b.convert(b.arg_reduce(Combiner::kArgMax, raised, 2, false), type));
}

/// In training, elements are 0 with the probability `ratio`, and what is left is larger for it.
void translate_dropout(OpContext& n) {
  GraphBuilder& b = n.b;
  const ValueId x = n.input(0);
  const Shape shape = b.shape(x);
  bool drops = false;
  if (n.has_input(2)) {
    const HostTensor training = n.constant_input(2, "training_mode");
    drops = training.size() == 1 && training.at_int(0) != 0;
  }
  if (drops && n.has_input(1)) {
    n.require(b.size(n.input(1)) == 1 && is_float(b.dtype(n.input(1))), "ratio is not one number");
    const HostTensor* ratio = n.known_input(1);
    drops = ratio == nullptr || ratio->at_double(0) != 0;
  }
  if (!drops) {
    n.set_output(0, x);
    const DType mask = n.opset() < 10 ? b.dtype(x) : DType::kBool;
    if (n.wants_output(1)) n.set_output(1, b.full(mask, shape, 1));
    return;
  }
  const ValueId ratio = n.has_input(1) ? b.reshape(n.input(1), {}) : b.scalar(DType::kF32, 0.5);
  const ValueId kept = b.sub(b.scalar(b.dtype(ratio), 1), ratio);
  const DType type = drawn_type(b.dtype(ratio));
  const RandomStream stream = n.has_attr("seed")
                                  ? seeded_stream(b, static_cast<uint64_t>(n.int_attr("seed")))
                                  : new_stream(b);
  const ValueId drawn = random_uniform(b, stream, type, shape);
  const ValueId mask = b.binary(ScalarOp::kGe, drawn, b.convert(ratio, type));
  const ValueId scaled = b.div(x, b.convert(kept, b.dtype(x)));
  n.set_output(0, b.select(mask, scaled, b.scalar(b.dtype(x), 0)));
  n.set_output(1, mask);
}

const Translator kRows[] = {
    {"", "Bernoulli", 15, translate_bernoulli},
    {"", "Dropout", 1, translate_dropout},
    {"", "Multinomial", 7, translate_multinomial},
    {"", "RandomNormal", 1, translate_random_normal},
    {"", "RandomNormalLike", 1, translate_random_normal_like},
    {"", "RandomUniform", 1, translate_random_uniform},
    {"", "RandomUniformLike", 1, translate_random_uniform_like},
};

}  // namespace

TranslatorTable random_translators() { return kRows; }

}  // namespace weft::onnx
