#include "import/builder/activation.h"
#include "import/builder/precision.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

// Each activation computes in the working type of its input and rounds once.

/// The input in its working type, and the way back.
struct Activation {
  explicit Activation(OpContext& context)
      : n(context), type(n.b.dtype(n.input(0))), x(widen(n.b, n.input(0))) {}
  void finish(ValueId y) { n.set_output(0, n.b.convert(y, type)); }

  OpContext& n;
  DType type;
  ValueId x;
};

void translate_elu(OpContext& n) {
  Activation a(n);
  a.finish(elu(n.b, a.x, n.float_attr("alpha", 1.0f)));
}

void translate_selu(OpContext& n) {
  Activation a(n);
  ValueId y = elu(n.b, a.x, n.float_attr("alpha", 1.67326319217681884765625f));
  a.finish(n.b.mul(y, double{n.float_attr("gamma", 1.05070102214813232421875f)}));
}

void translate_celu(OpContext& n) {
  Activation a(n);
  double alpha = n.float_attr("alpha", 1.0f);
  n.require(alpha != 0, "alpha must not be zero");
  a.finish(celu(n.b, a.x, alpha));
}

void translate_leaky_relu(OpContext& n) {
  Activation a(n);
  a.finish(leaky_relu(n.b, a.x, n.float_attr("alpha", 0.01f)));
}

void translate_prelu(OpContext& n) {
  Activation a(n);
  ValueId slope = n.b.broadcast_to(widen(n.b, n.input(1)), n.b.shape(a.x));
  ValueId zero = n.b.scalar(n.b.dtype(a.x), 0);
  a.finish(n.b.select(n.b.binary(ScalarOp::kLt, a.x, zero), n.b.mul(a.x, slope), a.x));
}

void translate_thresholded_relu(OpContext& n) {
  Activation a(n);
  a.finish(thresholded_relu(n.b, a.x, n.float_attr("alpha", 1.0f)));
}

void translate_softplus(OpContext& n) {
  Activation a(n);
  a.finish(softplus(n.b, a.x));
}

void translate_softsign(OpContext& n) {
  Activation a(n);
  a.finish(softsign(n.b, a.x));
}

void translate_mish(OpContext& n) {
  Activation a(n);
  a.finish(mish(n.b, a.x));
}

void translate_gelu(OpContext& n) {
  Activation a(n);
  std::string approximate = n.string_attr("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    n.invalid("approximate must be \"none\" or \"tanh\", not \"" + approximate + "\"");
  }
  a.finish(approximate == "tanh" ? tanh_gelu(n.b, a.x) : gelu(n.b, a.x));
}

void translate_hard_sigmoid(OpContext& n) {
  Activation a(n);
  a.finish(hard_sigmoid(n.b, a.x, n.float_attr("alpha", 0.2f), n.float_attr("beta", 0.5f)));
}

void translate_hard_swish(OpContext& n) {
  Activation a(n);
  a.finish(n.b.mul(a.x, hard_sigmoid(n.b, a.x, 1.0 / 6.0, 0.5)));
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
