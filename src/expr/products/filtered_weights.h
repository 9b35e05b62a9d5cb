#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "expr/products/windows_of_sum.h"
#include "support/tensor.h"

namespace weft {

/// Products that a tile takes along an axis.
inline constexpr int64_t kTaps = kWindowTile + kWindowPlaces - 1;

/// Constant weights as minimal filtering multiplies them (expr/products/minimal_filtering), made
/// once for all programs that read the same ones: those of a model's two bindings.
class FilteredWeights {
 public:
  /// `strides`, in elements of the weights: along one or two `axes` of a window's places, then
  /// along the axes of the result that follow its taps. `shape`: [4] or [4, 4], then those axes.
  /// float32.
  HostTensor of(const HostTensor& weights, const std::vector<int64_t>& strides, const Shape& shape,
                int axes);

 private:
  using Key = std::tuple<const void*, std::vector<int64_t>, Shape>;
  struct Made {
    HostTensor from;  ///< so that its address stays its own
    HostTensor value;
  };
  std::map<Key, Made> made_;
};

}  // namespace weft
