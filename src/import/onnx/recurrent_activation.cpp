#include "import/onnx/recurrent_activation.h"

#include <algorithm>
#include <cctype>

namespace weft::onnx {
namespace {

using Kind = RecurrentActivation::Kind;

struct KnownActivation {
  std::string_view name;  ///< lower case
  Kind kind;
  bool has_alpha, has_beta;
  double alpha, beta;
};

constexpr KnownActivation kKnown[] = {
    {"relu", Kind::kRelu, false, false, 0, 0},
    {"tanh", Kind::kTanh, false, false, 0, 0},
    {"sigmoid", Kind::kSigmoid, false, false, 0, 0},
    {"affine", Kind::kAffine, true, true, 1, 0},
    {"leakyrelu", Kind::kLeakyRelu, true, false, 0.01, 0},
    {"thresholdedrelu", Kind::kThresholdedRelu, true, false, 1, 0},
    {"scaledtanh", Kind::kScaledTanh, true, true, 1, 1},
    {"hardsigmoid", Kind::kHardSigmoid, true, true, 0.2, 0.5},
    {"elu", Kind::kElu, true, false, 1, 0},
    {"selu", Kind::kSelu, true, true, 1.67326319217681884765625, 1.05070102214813232421875},
    {"softsign", Kind::kSoftsign, false, false, 0, 0},
    {"softplus", Kind::kSoftplus, false, false, 0, 0},
};

const KnownActivation& find_activation(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const KnownActivation& known : kKnown) {
    if (known.name == lower) return known;
  }
  refuse_invalid("\"" + std::string(name) + "\" is not a known activation");
}

/// The next number of a list, or a default when it is used up.
double next_of(const std::vector<float>& list, size_t& used, double otherwise) {
  return used < list.size() ? list[used++] : otherwise;
}

}  // namespace

ValueId RecurrentActivation::apply(GraphBuilder& b, ValueId x) const {
  const auto zero = [&] { return b.scalar(b.dtype(x), 0); };
  if (clip > 0) x = b.max(b.min(x, clip), -clip);
  switch (kind) {
    case Kind::kRelu:
      return b.max(x, 0.0);
    case Kind::kTanh:
      return b.unary(ScalarOp::kTanh, x);
    case Kind::kSigmoid:
      return b.unary(ScalarOp::kSigmoid, x);
    case Kind::kAffine:
      return b.add(b.mul(x, alpha), beta);
    case Kind::kLeakyRelu:
      return b.select(b.binary(ScalarOp::kLt, x, zero()), b.mul(x, alpha), x);
    case Kind::kThresholdedRelu:
      return b.select(b.binary(ScalarOp::kGe, x, alpha), x, zero());
    case Kind::kScaledTanh:
      return b.mul(b.unary(ScalarOp::kTanh, b.mul(x, beta)), alpha);
    case Kind::kHardSigmoid:
      return b.max(b.min(b.add(b.mul(x, alpha), beta), 1.0), 0.0);
    case Kind::kElu:
      return b.select(b.binary(ScalarOp::kLt, x, zero()), b.mul(b.sub(b.exp(x), 1.0), alpha), x);
    case Kind::kSelu: {
      ValueId below = b.mul(b.sub(b.exp(x), 1.0), alpha);
      return b.mul(b.select(b.binary(ScalarOp::kGt, x, zero()), x, below), beta);
    }
    case Kind::kSoftsign:
      return b.div(x, b.add(b.unary(ScalarOp::kAbs, x), 1.0));
    case Kind::kSoftplus:
      return b.add(b.max(x, 0.0),
                   b.unary(ScalarOp::kLog1p, b.exp(b.neg(b.unary(ScalarOp::kAbs, x)))));
  }
  WEFT_CHECK(false, "an unknown recurrent activation");
}

RecurrentActivation find_recurrent_activation(std::string_view name,
                                              const std::vector<float>& parameters) {
  const KnownActivation& known = find_activation(name);
  size_t used = 0;
  RecurrentActivation out;
  out.kind = known.kind;
  out.alpha = known.has_alpha ? next_of(parameters, used, known.alpha) : 0;
  out.beta = known.has_beta ? next_of(parameters, used, known.beta) : 0;
  return out;
}

std::vector<RecurrentActivation> read_recurrent_activations(
    OpContext& n, int64_t directions, const std::vector<std::string_view>& defaults) {
  size_t count = defaults.size() * static_cast<size_t>(directions);
  std::vector<std::string> names =
      n.strings_attr("activations").value_or(std::vector<std::string>{});
  if (names.empty()) {
    for (size_t i = 0; i < count; ++i) names.emplace_back(defaults[i % defaults.size()]);
  }
  n.require(names.size() == count, "activations has a wrong number of entries");
  std::vector<float> alphas = n.floats_attr("activation_alpha").value_or(std::vector<float>{});
  std::vector<float> betas = n.floats_attr("activation_beta").value_or(std::vector<float>{});
  size_t used_alphas = 0, used_betas = 0;
  double clip = n.float_attr("clip", 0.0f);
  std::vector<RecurrentActivation> result;
  for (const std::string& name : names) {
    const KnownActivation& known = find_activation(name);
    RecurrentActivation activation{known.kind, known.alpha, known.beta, clip};
    if (known.has_alpha) activation.alpha = next_of(alphas, used_alphas, known.alpha);
    if (known.has_beta) activation.beta = next_of(betas, used_betas, known.beta);
    result.push_back(activation);
  }
  return result;
}

}  // namespace weft::onnx
