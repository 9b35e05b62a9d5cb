#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace weft {

struct TangledGraphOptions {
  int least_nodes = 20, most_nodes = 200;
  /// A graph draws a few of these, so that its shapes meet again.
  std::vector<int64_t> extents = {1,  2,  3,   4,   7,   8,   12,  16,  31,  32,   48,  64,
                                  77, 96, 100, 128, 197, 256, 384, 512, 768, 1000, 1024};
  int64_t most_elements = int64_t{1} << 22;  ///< of a value
  int64_t most_terms = int64_t{1} << 32;     ///< multiplications of a product
  bool convolutions = false;
};

/// Small enough to be run by the reference executors; the extents leave tails at any vector width.
TangledGraphOptions small_tangled_graphs();

/// A verified graph as a fusion planner does not like them: chains of element-wise operations whose
/// values have up to four readers, reductions along any axis whose results are broadcast back,
/// products of operands in any order of axes, transposes, reshapes that split, merge and exchange
/// axes, slices, concatenations, padding, gathers and windows, in float32, float16 or both; outputs
/// at the ends and in the middle of chains. Convolutions, where they are asked for, have any groups
/// of channels. The same for the same seed and options.
///
/// On the numbers of random_inputs (tests/graph/random_graph.h) values stay finite and of moderate
/// size. What is not continuous (comparisons, positions of a maximum) is taken only of values that
/// every order of evaluation computes exactly.
Graph tangled_graph(uint64_t seed, const TangledGraphOptions& options = {});

}  // namespace weft

#include "tests/graph/tangled_graph_inl.h"
