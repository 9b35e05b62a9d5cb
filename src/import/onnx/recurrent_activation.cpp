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
