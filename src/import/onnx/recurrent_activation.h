#pragma once

#include <vector>

#include "import/builder/recurrent_activation.h"
#include "import/onnx/translator.h"

namespace weft::onnx {

/// The activation of a name (in any case) with its parameters, defaults where `parameters` ends.
RecurrentActivation find_recurrent_activation(std::string_view name,
                                              const std::vector<float>& parameters);

/// Reads activations, activation_alpha, activation_beta and clip. `defaults` are the names for one
/// direction; the result has them for `directions` directions, in order. An activation with a
/// parameter takes the next number of its list while there is one, then its default.
std::vector<RecurrentActivation> read_recurrent_activations(
    OpContext& n, int64_t directions, const std::vector<std::string_view>& defaults);

}  // namespace weft::onnx
