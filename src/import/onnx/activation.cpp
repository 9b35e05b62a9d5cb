#include "import/builder/precision.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

// Each activation computes in the working type of its input and rounds once. Where the ONNX
// definition chooses by a comparison, so does the graph: a NaN then takes the side that it takes
// there.

/// The input in its working type, and the way back.
struct Activation {
  explicit Activation(OpContext& context)
      : n(context), type(n.b.dtype(n.input(0))), x(widen(n.b, n.input(0))) {}
  void finish(ValueId y) { n.set_output(0, n.b.convert(y, type)); }
  ValueId number(double value) { return n.b.scalar(n.b.dtype(x), value); }
  ValueId positive() { return n.b.binary(ScalarOp::kGt, x, number(0)); }
  ValueId negative() { return n.b.binary(ScalarOp::kLt, x, number(0)); }

  OpContext& n;
  DType type;
  ValueId x;
};

/// log(1 + exp(x)), without overflow for large x and without losing small results.
ValueId softplus(GraphBuilder& b, ValueId x) {
  ValueId tail = b.unary(ScalarOp::kLog1p, b.exp(b.neg(b.unary(ScalarOp::kAbs, x))));
  return b.add(b.max(x, 0.0), tail);
}

/// alpha * (exp(x) - 1)
ValueId scaled_expm1(GraphBuilder& b, ValueId x, double alpha) {
  ValueId e = b.sub(b.exp(x), 1.0);
  return alpha == 1.0 ? e : b.mul(e, alpha);
}

void translate_elu(OpContext& n) {
  Activation a(n);
  ValueId below = scaled_expm1(n.b, a.x, n.float_attr("alpha", 1.0f));
  a.finish(n.b.select(a.positive(), a.x, below));
}

void translate_selu(OpContext& n) {
  Activation a(n);
  ValueId below = scaled_expm1(n.b, a.x, n.float_attr("alpha", 1.67326319217681884765625f));
  ValueId y = n.b.select(a.positive(), a.x, below);
  a.finish(n.b.mul(y, double{n.float_attr("gamma", 1.05070102214813232421875f)}));
}

void translate_celu(OpContext& n) {
  Activation a(n);
  double alpha = n.float_attr("alpha", 1.0f);
  n.require(alpha != 0, "alpha must not be zero");
  ValueId below = scaled_expm1(n.b, alpha == 1.0 ? a.x : n.b.div(a.x, alpha), alpha);
  a.finish(n.b.add(n.b.max(a.x, 0.0), n.b.min(below, 0.0)));
}

void translate_leaky_relu(OpContext& n) {
  Activation a(n);
  ValueId below = n.b.mul(a.x, double{n.float_attr("alpha", 0.01f)});
  a.finish(n.b.select(a.negative(), below, a.x));
}

void translate_prelu(OpContext& n) {
  Activation a(n);
  ValueId slope = n.b.broadcast_to(widen(n.b, n.input(1)), n.b.shape(a.x));
  a.finish(n.b.select(a.negative(), n.b.mul(a.x, slope), a.x));
}

void translate_thresholded_relu(OpContext& n) {
  Activation a(n);
  ValueId above = n.b.binary(ScalarOp::kGt, a.x, a.number(n.float_attr("alpha", 1.0f)));
  a.finish(n.b.select(above, a.x, a.number(0)));
}

void translate_softplus(OpContext& n) {
  Activation a(n);
  a.finish(softplus(n.b, a.x));
}

void translate_softsign(OpContext& n) {
  Activation a(n);
  a.finish(n.b.div(a.x, n.b.add(n.b.unary(ScalarOp::kAbs, a.x), 1.0)));
}

void translate_mish(OpContext& n) {
  Activation a(n);
  a.finish(n.b.mul(a.x, n.b.unary(ScalarOp::kTanh, softplus(n.b, a.x))));
}

void translate_gelu(OpContext& n) {
  Activation a(n);
  GraphBuilder& b = n.b;
  std::string approximate = n.string_attr("approximate", "none");
  ValueId inner = kNoValue;
  if (approximate == "none") {
    inner = b.unary(ScalarOp::kErf, b.mul(a.x, 0.70710678118654752440));
  } else if (approximate == "tanh") {
    ValueId cube = b.mul(b.mul(a.x, a.x), a.x);
    inner = b.mul(b.add(a.x, b.mul(cube, 0.044715)), 0.79788456080286535588);
    inner = b.unary(ScalarOp::kTanh, inner);
  } else {
    n.invalid("approximate must be \"none\" or \"tanh\", not \"" + approximate + "\"");
  }
  a.finish(b.mul(b.mul(a.x, 0.5), b.add(inner, 1.0)));
}

/// clamp(alpha * x + beta, 0, 1)
ValueId hard_sigmoid(GraphBuilder& b, ValueId x, double alpha, double beta) {
  return b.max(b.min(b.add(b.mul(x, alpha), beta), 1.0), 0.0);
}

void translate_hard_sigmoid(OpContext& n) {
  Activation a(n);
  a.finish(hard_sigmoid(n.b, a.x, n.float_attr("alpha", 0.2f), n.float_attr("beta", 0.5f)));
}

void translate_hard_swish(OpContext& n) {
  Activation a(n);
  a.finish(n.b.mul(a.x, hard_sigmoid(n.b, a.x, 1.0 / 6.0, 0.5)));
}

/// x * sigmoid(alpha * x)
ValueId swish(GraphBuilder& b, ValueId x, double alpha) {
  return b.mul(x, b.unary(ScalarOp::kSigmoid, alpha == 1.0 ? x : b.mul(x, alpha)));
}

void translate_swish(OpContext& n) {
  Activation a(n);
  a.finish(swish(n.b, a.x, n.float_attr("alpha", 1.0f)));
}

void translate_swiglu(OpContext& n) {
  Activation a(n);
  n.require(n.b.type(n.input(0)) == n.b.type(n.input(1)), "A and B must have one type and shape");
  ValueId gate = swish(n.b, a.x, n.float_attr("alpha", 1.0f));
  a.finish(n.b.mul(gate, widen(n.b, n.input(1))));
}

void translate_shrink(OpContext& n) {
  GraphBuilder& b = n.b;
  DType type = b.dtype(n.input(0));
  ValueId x = to_floating(b, n.input(0));
  double bias = n.float_attr("bias", 0.0f), bound = n.float_attr("lambd", 0.5f);
  ValueId below = b.binary(ScalarOp::kLt, x, -bound), above = b.binary(ScalarOp::kGt, x, bound);
  ValueId y = b.select(above, b.sub(x, bias), b.scalar(b.dtype(x), 0));
  n.set_output(0, b.convert(b.select(below, b.add(x, bias), y), type));
}

const Translator kRows[] = {
    {"", "Celu", 12, translate_celu},
    {"", "Elu", 6, translate_elu},
    {"", "Gelu", 20, translate_gelu},
    {"", "HardSigmoid", 6, translate_hard_sigmoid},
    {"", "HardSwish", 14, translate_hard_swish},
    {"", "LeakyRelu", 6, translate_leaky_relu},
    {"", "Mish", 18, translate_mish},
    {"", "PRelu", 7, translate_prelu},
    {"", "Selu", 6, translate_selu},
    {"", "Shrink", 9, translate_shrink},
    {"", "Softplus", 1, translate_softplus},
    {"", "Softsign", 1, translate_softsign},
    {"", "SwiGLU", 28, translate_swiglu},
    {"", "Swish", 24, translate_swish},
    {"", "ThresholdedRelu", 10, translate_thresholded_relu},
    {"com.microsoft", "Gelu", 1, translate_gelu},
    {"com.microsoft", "QuickGelu", 1, translate_swish},
};

}  // namespace

TranslatorTable activation_translators() { return kRows; }

}  // namespace weft::onnx
