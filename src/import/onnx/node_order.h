#pragma once

#include <string_view>
#include <vector>

#include "import/onnx/model.h"

namespace weft::onnx {

/// The nodes that the outputs need, each after those whose values it or its subgraphs read; the
/// file's order where it is one. Names that no node makes are the caller's business. Throws Refusal
/// (kInvalidInput) when two nodes make one name or nodes form a cycle.
std::vector<size_t> order_nodes(const std::vector<NodeDef>& nodes,
                                const std::vector<std::string_view>& outputs);

/// Names that the node reads: its inputs, and what its subgraphs read from around them.
std::vector<std::string_view> names_read(const NodeDef& node);

}  // namespace weft::onnx
