#pragma once

#include <vector>

#include "import/onnx/import_onnx.h"
#include "import/onnx/model.h"

namespace weft::onnx {

/// The inputs that a caller gives (those with an initializer are none), with concrete shapes: from
/// the model, from the values and shapes in `options`, and from its symbolic dimensions, which one
/// input may bind for all.
///
/// Throws Refusal: kInvalidInput when options contradict the model or each other, name something
/// that it does not have, or when dimensions stay unbound (all in one message); kUnsupported for
/// inputs that are not tensors of a known type.
std::vector<ImportedInput> bind_inputs(const GraphDef& graph, const ImportOptions& options);

/// The declaration of an input or output; refuses as check_is_tensor does.
DeclaredTensor declared(const ValueDef& def);

/// Refuses a declared input or output that is not a tensor of an element type of weft.
DType check_is_tensor(const ValueDef& def);

}  // namespace weft::onnx
