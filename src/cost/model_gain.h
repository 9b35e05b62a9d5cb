#pragma once

#include <cstdint>

#include "target/target.h"

namespace weft {

/// The evaluator `model` (FusionStitching 2019 §4.3): what one kernel gains over `kernels` whose
/// traffic is `volume` bytes more, V / B(V) + (N - 1) φ with the target's bandwidth curve. φ is
/// what a launch costs, with the barrier behind it.
double model_gain_us(int64_t volume, int64_t kernels, const Target& target);

}  // namespace weft
