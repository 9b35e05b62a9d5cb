#pragma once

#include <set>
#include <string>

#include "import/builder/graph_builder.h"

namespace weft::onnx {

/// Adds the names of the model's inputs that a value follows from. False when it also follows from
/// something that no input decides alone: the state of a loop or an element of a scan.
bool collect_inputs(const GraphBuilder& builder, ValueId v, std::set<std::string>& names);

}  // namespace weft::onnx
