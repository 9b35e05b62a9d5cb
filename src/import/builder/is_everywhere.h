#pragma once

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// Whether all elements of `v` are this number: a constant of one element, broadcast or not.
bool is_everywhere(GraphBuilder& b, ValueId v, double number);

}  // namespace weft::onnx
