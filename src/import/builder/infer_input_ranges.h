#pragma once

#include <vector>

#include "import/builder/imported_input.h"

namespace weft::onnx {

/// Sets ImportedInput::range of the integer inputs that index something: what reaches the indices
/// of a gather or scatter along an axis of n unchanged but for its shape and type (and the wrapping
/// of negative indices) is in [0, n-1].
///
/// Requires: the finished graph, which `inputs` point into. Inputs of regions are not followed.
void infer_input_ranges(const Graph& graph, std::vector<ImportedInput>& inputs);

}  // namespace weft::onnx
