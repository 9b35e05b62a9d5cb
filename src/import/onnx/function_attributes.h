#pragma once

#include <vector>

#include "import/onnx/model.h"

namespace weft::onnx {

/// The nodes of a function as one call sees them: attributes that refer to the function's own get
/// the call's values or the function's defaults, and vanish where there is neither.
std::vector<NodeDef> bind_attributes(const FunctionDef& function, const NodeDef& call);

}  // namespace weft::onnx
