#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "lower/core/box.h"

namespace weft::lowering {

/// Kernel variables: numbers for registers that index expressions may name. Tile variables lie
/// below kKernelVarBase, the runtime indices of a gather above kRuntimeIndexBase.
inline constexpr int kKernelVarBase = 1 << 16;
/// The lane of the vector axis.
inline constexpr int kLaneVar = kKernelVarBase;

struct KernelVar {
  Reg reg = kNoReg;
  Interval range;
  // Written where they are used, instead of `reg`:
  std::optional<ThreadDigit> digit;
  int32_t argument = -1;     ///< of the launch
  std::vector<int> factors;  ///< kernel variables and runtime indices, ascending
};

/// An index expression made ready for a statement: over box variables (still tile variables),
/// kernel variables and runtime indices.
struct PreparedIndex {
  /// `coefficient` times a box variable times a product of kernel variables: open strides.
  struct Scaled {
    int box_var = -1;
    int factor = -1;
    int64_t coefficient = 0;
  };
  IndexExpr expr;
  bool affine = false;
  AffineForm form;  ///< products of kernel variables count as kernel variables
  std::vector<Scaled> scaled;
};

/// constant + lane_coefficient * lane + the rest, at a point of a box.
struct PointOffset {
  int64_t constant = 0;
  int64_t lane_coefficient = 0;
  std::vector<std::pair<int, int64_t>> terms;  ///< kernel variables and runtime indices
};

}  // namespace weft::lowering
