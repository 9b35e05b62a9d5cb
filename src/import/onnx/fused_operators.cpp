#include "import/builder/activation.h"
#include "import/builder/numpy_matmul.h"
#include "import/builder/precision.h"
#include "import/onnx/contraction.h"
#include "import/onnx/convolution.h"
#include "import/onnx/recurrent_activation.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// The activation that an operator carries as a name, if it does.
ValueId activate(OpContext& n, ValueId y, const std::vector<float>& parameters) {
  const std::string name = n.string_attr("activation", "");
  if (name.empty()) return y;
  if (name == "Clip") {
    n.require(parameters.size() == 2, "Clip needs two activation parameters");
    return n.b.max(n.b.min(y, double{parameters[1]}), double{parameters[0]});
  }
  return find_recurrent_activation(name, parameters).apply(n.b, y);
}

/// activation(conv(X, W) + B + Z)
void translate_fused_conv(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId y = convolve(n, n.input(0), n.input(1), n.optional_input(2));
  if (n.has_input(3)) y = b.add(y, widen(b, n.input(3)));
  y = activate(n, y, n.floats_attr("activation_params").value_or(std::vector<float>{}));
  n.set_output(0, b.convert(y, b.dtype(n.input(0))));
}

void translate_fused_gemm(OpContext& n) {
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (n.has_attr(name)) parameters.push_back(n.float_attr(name));
  }
  ValueId y = gemm(n, n.input(0), n.input(1), n.optional_input(2));
  n.set_output(0, activate(n, y, parameters));
}

/// The last two axes exchanged (`rows`), after the first axis came behind the batch (`batch`).
ValueId turned(GraphBuilder& b, ValueId v, bool rows, bool batch) {
  const int64_t rank = b.rank(v);
  if (rank < 2) return v;
  if (batch) {
    std::vector<int64_t> order;
    for (int64_t i = 1; i + 1 < rank; ++i) order.push_back(i);
    order.insert(order.end(), {0, rank - 1});
    v = b.transpose(v, order);
  }
  return rows ? b.swap_axes(v, -1, -2) : v;
}

void translate_fused_matmul(OpContext& n) {
  GraphBuilder& b = n.b;
  n.require(b.dtype(n.input(0)) == b.dtype(n.input(1)), "both factors must have one type");
  const DType type = b.dtype(n.input(0));
  ValueId x =
      turned(b, n.input(0), n.bool_attr("transA", false), n.bool_attr("transBatchA", false));
  ValueId y =
      turned(b, n.input(1), n.bool_attr("transB", false), n.bool_attr("transBatchB", false));
  ValueId product = numpy_matmul(b, x, y, working_type(type));
  const double alpha = n.float_attr("alpha", 1.0f);
  if (alpha != 1.0) product = b.mul(product, alpha);
  n.set_output(0, b.convert(product, type));
}

/// x + bias in the working type.
ValueId biased_input(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = widen(b, n.input(0));
  if (!n.has_input(1)) return x;
  return b.add(x, b.broadcast_to(widen(b, n.input(1)), b.shape(x)));
}

void translate_bias_gelu(OpContext& n) {
  n.set_output(0, n.b.convert(gelu(n.b, biased_input(n)), n.b.dtype(n.input(0))));
}

void translate_fast_gelu(OpContext& n) {
  n.set_output(0, n.b.convert(tanh_gelu(n.b, biased_input(n)), n.b.dtype(n.input(0))));
}

const Translator kRows[] = {
    {"com.microsoft", "BiasGelu", 1, translate_bias_gelu},
    {"com.microsoft", "FastGelu", 1, translate_fast_gelu},
    {"com.microsoft", "FusedConv", 1, translate_fused_conv},
    {"com.microsoft", "FusedGemm", 1, translate_fused_gemm},
    {"com.microsoft", "FusedMatMul", 1, translate_fused_matmul},
    {"com.microsoft", "TransposeMatMul", 1, translate_fused_matmul},
};

}  // namespace

TranslatorTable fused_translators() { return kRows; }

}  // namespace weft::onnx
