#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace weft {

/// The same numbers on every machine (splitmix64), unlike the distributions of <random>.
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// low <= value <= high.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int64_t percent) { return between(1, 100) <= percent; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(between(0, static_cast<int64_t>(from.size()) - 1))];
  }

 private:
  uint64_t state_;
};

struct RandomGraphOptions {
  int nodes = 14;       ///< about: an operand may need a node of its own
  int64_t longest = 4;  ///< extent of an input's or constant's axis
  bool control_flow = true;
  bool special_values = true;  ///< infinities, NaN and both zeros among the numbers
  std::vector<DType> types = {DType::kF32, DType::kF32, DType::kF32,  DType::kI64,
                              DType::kI32, DType::kF16, DType::kBF16, DType::kF64,
                              DType::kI8,  DType::kU8,  DType::kBool};
};

/// A verified graph of small shapes in which every op may appear, the same for the same seed and
/// options. Chains of movement ops, constants, splats and equal nodes are frequent, so that the
/// passes have something to do.
Graph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

/// Values for its inputs; indices lie a little beyond what they index.
std::vector<HostTensor> random_inputs(const Graph& graph, uint64_t seed,
                                      bool special_values = true);
HostTensor random_tensor(TestRandom& random, const TensorType& type, bool special_values);

/// "" when both have the same types and bits, NaN being equal to NaN; else what differs.
std::string difference(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b);

}  // namespace weft

#include "tests/graph/random_graph_inl.h"
