#include <algorithm>

#include "import/builder/activation.h"
#include "import/builder/normalization.h"
#include "import/builder/precision.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// x over the root of the mean of its squares, by groups of `group` elements of the last axis,
/// which is a multiple: float32 [rows, groups, group].
ValueId normed_groups(OpContext& n, ValueId x, int64_t group) {
  GraphBuilder& b = n.b;
  n.require(group >= 1 && b.rank(x) >= 1 && b.extent(x, -1) % group == 0,
            "the last axis is no multiple of what is normalised");
  const int64_t groups = b.extent(x, -1) / group;
  ValueId v = b.convert(x, DType::kF32);
  v = b.reshape(v, {b.extent(x, -1) == 0 ? 0 : b.size(x) / b.extent(x, -1), groups, group});
  return over_root_mean_square(b, v, {2}, n.float_attr("epsilon", 1e-5f));
}

/// Groups of the last axis normalised, scaled, and times an activation of a gate.
void translate_gated_rms_norm(OpContext& n) {
  GraphBuilder& b = n.b;
  const Shape shape = b.shape(n.input(0));
  n.require(b.rank(n.input(1)) == 1 && b.shape(n.input(2)) == shape,
            "scale must have one axis, and gate the shape of X");
  ValueId y = normed_groups(n, n.input(0), b.extent(n.input(1), 0));
  y = b.mul(y, b.broadcast_to(b.convert(n.input(1), DType::kF32), b.shape(y)));
  ValueId gate = b.reshape(b.convert(n.input(2), DType::kF32), b.shape(y));
  const std::string activation = n.string_attr("activation", "silu");
  const bool multiplies = activation == "silu" || activation == "swish";
  n.require(multiplies || activation == "sigmoid", "activation is not one that onnxruntime has");
  gate = multiplies ? swish(b, gate, 1) : b.unary(ScalarOp::kSigmoid, gate);
  n.set_output(0, b.convert(b.reshape(b.mul(y, gate), shape), b.dtype(n.input(0))));
}

/// Branches, as the last axis but one or as parts of the last axis, normalised one by one.
void translate_branchwise_rms_norm(OpContext& n) {
  GraphBuilder& b = n.b;
  const Shape shape = b.shape(n.input(0));
  int64_t branches = n.int_attr("num_branches", 0);
  n.require(branches >= 0 && shape.size() >= (branches == 0 ? 2U : 1U) &&
                (branches == 0 || shape.back() % branches == 0),
            "the branches do not divide the last axis");
  const int64_t width = branches == 0 ? shape.back() : shape.back() / branches;
  if (branches == 0) branches = shape[shape.size() - 2];
  ValueId y = normed_groups(n, n.input(0), width);
  if (n.has_input(1)) {
    ValueId scale = b.convert(n.input(1), DType::kF32);
    const bool all = b.size(scale) == branches * width;
    n.require(all || b.size(scale) == width,
              "scale must be one for each element of a branch, or of all");
    y = b.reshape(y, {b.size(y) / std::max<int64_t>(branches * width, 1), branches, width});
    y = b.mul(y, b.broadcast_to(b.reshape(scale, {all ? branches : 1, width}), b.shape(y)));
  }
  n.set_output(0, b.convert(b.reshape(y, shape), b.dtype(n.input(0))));
}

/// X + Y * gate, the product rounded first.
void translate_gated_add(OpContext& n) {
  GraphBuilder& b = n.b;
  const Shape shape = b.shape(n.input(0));
  ValueId gate = b.broadcast_to(n.input(2), shape);
  n.set_output(0, b.add(n.input(0), b.mul(n.input(1), gate)));
}

/// z * sigmoid(z) of z = scale * X, each step rounded.
void translate_scaled_silu(OpContext& n) {
  GraphBuilder& b = n.b;
  const DType type = b.dtype(n.input(0));
  ValueId x = widen(b, n.input(0));
  ValueId scale = b.scalar(b.dtype(x), n.float_attr("alpha", 1.0f));
  if (n.has_input(1)) {
    n.require(b.size(n.input(1)) == 1, "scale must be one number");
    scale = b.reshape(b.convert(n.input(1), b.dtype(x)), {});
  }
  ValueId z = b.convert(b.mul(x, scale), type);
  ValueId gate = b.convert(b.unary(ScalarOp::kSigmoid, widen(b, z)), type);
  n.set_output(0, b.mul(z, gate));
}

/// What a gated delta rule forgets by, as a logarithm, and how much it corrects.
void translate_linear_attention_gate(OpContext& n) {
  GraphBuilder& b = n.b;
  const Shape shape = b.shape(n.input(0));
  ValueId a = b.convert(n.input(0), DType::kF32);
  a = b.add(a, b.broadcast_to(b.convert(n.input(1), DType::kF32), shape));
  ValueId scale = b.broadcast_to(b.convert(n.input(2), DType::kF32), shape);
  n.set_output(0, b.convert(b.mul(scale, softplus(b, a)), b.dtype(n.input(0))));
  if (!n.wants_output(1)) return;
  ValueId beta = b.unary(ScalarOp::kSigmoid, b.convert(n.input(3), DType::kF32));
  n.set_output(1, b.convert(beta, b.dtype(n.input(3))));
}

const Translator kRows[] = {
    {"com.microsoft", "BranchwiseRMSNorm", 1, translate_branchwise_rms_norm},
    {"com.microsoft", "GatedAdd", 1, translate_gated_add},
    {"com.microsoft", "GatedRMSNorm", 1, translate_gated_rms_norm},
    {"com.microsoft", "LinearAttentionGate", 1, translate_linear_attention_gate},
    {"com.microsoft", "ScaledSiLU", 1, translate_scaled_silu},
};

}  // namespace

TranslatorTable gated_translators() { return kRows; }

}  // namespace weft::onnx
