#pragma once

#include "import/onnx/import_onnx.h"

namespace weft::onnx {

/// Sets ImportedInput::range of the integer inputs that index something: what reaches the indices
/// of a gather or scatter along an axis of n unchanged but for its shape and type (and the wrapping
/// of negative indices) is in [0, n-1].
///
/// Requires: the finished graph. Inputs of regions are not followed.
void infer_input_ranges(ImportedModel& model);

}  // namespace weft::onnx
