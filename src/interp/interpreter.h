#pragma once

#include <vector>

#include "graph/graph.h"

namespace weft {

/// The reference meaning of a Graph, the oracle of every test: direct, clear code, in
/// double-checked IEEE semantics of scalar_ops.def; reductions and dots of f32 accumulate in double
/// and round once at the end.
///
/// `inputs` in graph order, of the declared types (else kInvalidInput). `max_iterations` bounds the
/// iterations of all loops together (kInvalidInput beyond).
Result<std::vector<HostTensor>> interpret(const Graph& graph, const std::vector<HostTensor>& inputs,
                                          int64_t max_iterations = int64_t{1} << 32);

/// All values of the top-level graph, by ValueId; for bisection.
Result<std::vector<HostTensor>> interpret_all(const Graph& graph,
                                              const std::vector<HostTensor>& inputs);

/// One node on given operand values, which have the declared types.
Result<std::vector<HostTensor>> interpret_node(const Graph& graph, const Node& node,
                                               const std::vector<HostTensor>& operands,
                                               int64_t max_iterations = int64_t{1} << 32);

}  // namespace weft
