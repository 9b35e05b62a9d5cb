#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernel/kernel_function.h"
#include "tile/tile_program.h"

namespace weft::lowering {

/// One digit of the number of a thread's lane or warp: number / stride % extent.
struct ThreadDigit {
  PlaceLevel level = PlaceLevel::kLane;
  int64_t stride = 1, extent = 1;
  friend auto operator<=>(const ThreadDigit&, const ThreadDigit&) = default;
};

/// How a statement's box lies on threads and in registers: per axis `regs` unrolled copies and
/// (on a GPU) digits of the thread's number; one axis may be the vector axis. Element `copy` of an
/// axis lies at the sum of its register digits, its thread digits and the vector lane.
struct Box {
  struct RegDigit {
    int64_t extent = 1, divisor = 1;
  };
  struct Axis {
    TileVarId var = -1;
    int64_t regs = 1;
    int64_t lanes = 1;
    std::vector<RegDigit> digits;  ///< of the copy's number, most significant first
    std::vector<std::pair<ThreadDigit, int64_t>> threads;  ///< with elements a step
    struct LoopDigit {
      int var = -1;  ///< kernel variable
      int64_t extent = 1, step = 1;
    };
    std::vector<LoopDigit> loops;  ///< digits that are loops around what is written

    int64_t start(int64_t copy) const;  ///< of a register copy, for thread 0
    int64_t thread_reach() const;       ///< largest sum of the thread digits and the loops
  };
  std::vector<Axis> axes;
  int vec_axis = -1;
  int32_t lanes = 1;
  /// Threads that hold copies of the same elements: those with a digit above zero here.
  std::vector<ThreadDigit> copies;

  int find(int var) const;  ///< axis of a variable, -1 if it is not of the box
  int64_t points() const;
};

/// The register copy in hand, one number per axis of the box.
using Point = std::vector<int32_t>;

/// f(number, point) for each register copy of a box, the last axis fastest.
template <typename F>
void for_each_point(const Box& box, F&& f) {
  Point point(box.axes.size(), 0);
  const int64_t n = box.points();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    for (size_t a = box.axes.size(); a-- > 0;) {
      point[a] = static_cast<int32_t>(rest % box.axes[a].regs);
      rest /= box.axes[a].regs;
    }
    f(i, point);
  }
}

/// A digit of a box that is a loop around what is written, in place of copies.
struct RolledDigit {
  size_t axis = 0;
  int64_t extent = 1, step = 1;
};

/// A value of register scope: one register (scalar or vector) per point of its box.
struct RegisterTile {
  Box box;
  /// Per coordinate: the value's index with box variables at zero, over kernel variables; and the
  /// box axis it runs along.
  std::vector<IndexExpr> base;
  std::vector<int> axis;
  std::vector<Reg> regs;
};

/// Where the points of a box lie within bounds: rest of a tail.
struct Valid {
  int64_t count = 0;    ///< with a register: at most so many, 0 where nothing is known
  Reg reg = kNoReg;     ///< known at run time only
  int64_t divisor = 1;  ///< of what is known at run time only
};

}  // namespace weft::lowering
