#pragma once

#include <vector>

#include "plan/pattern.h"

namespace weft {

/// Sets of disjoint patterns, that of the largest gain first, at most `width`. `candidates` has by
/// group those whose first member it is. Groups are passed in their order; of the sets so far, each
/// without a further pattern and with each candidate that it leaves room for, the `width` best go
/// on (FusionStitching 2021 §5.3).
std::vector<std::vector<Pattern>> beam_search(const std::vector<std::vector<Pattern>>& candidates,
                                              size_t width);

}  // namespace weft
