#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "index/index_expr.h"

namespace weft {

/// An input of the model, in the model's order.
struct ImportedInput {
  std::string name;
  TensorType type;
  /// Name of each axis in the model ("" where it is a number or has none).
  std::vector<std::string> symbols;
  /// By axis: whether the model leaves its extent to the caller.
  std::vector<bool> open;
  /// Position in Graph::inputs; -1 when the graph is specialised on the input's value.
  int64_t graph_input = -1;
  /// That value: another one needs another import.
  std::optional<HostTensor> specialised;
  /// Integers that are safe whatever the rest: an index into an axis of n has [0, n-1]. nullopt:
  /// nothing is known.
  std::optional<Interval> range;
  /// The seed of random numbers, which a run draws where the caller gives none.
  bool drawn = false;
};

}  // namespace weft
