#pragma once

#include <vector>

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// Output position o is the sum over t of weights[t][o] * input[indices[t][o]].
struct Taps {
  std::vector<std::vector<int64_t>> indices;
  std::vector<std::vector<double>> weights;  ///< empty: one tap of weight 1
  std::vector<bool> outside;                 ///< positions to extrapolate; empty: none
};

/// The weighted sum along one axis of x; without weights a movement of elements, which repeats,
/// slices or copies x where the indices allow it and gathers otherwise.
ValueId apply_taps(GraphBuilder& b, ValueId x, int64_t axis, const Taps& taps);

}  // namespace weft::onnx
