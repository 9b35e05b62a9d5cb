#pragma once

#include <cstdint>
#include <vector>

#include "target/target.h"
#include "tile/tile_program.h"

namespace weft {

/// How the axes of a GPU kernel's box lie on a block: threads are handed out from the innermost
/// axis outwards, lanes before warps.
///     rows of 1000 f32, 4 warps a row  ->  j = REG_2-WARP_4-LANE_32-VEC_4
class ThreadTile {
 public:
  ThreadTile(int64_t warps, int64_t warp_lanes = 32) : warps_(warps), lanes_(warp_lanes) {}

  /// Digits of the next axis outwards, of which `elements` are wanted: `vec` elements a vector, up
  /// to `most_lanes` and `most_warps` of the threads left, `regs` copies at most (0: as many as the
  /// elements ask for). Powers of two but for the copies.
  std::vector<Place::Digit> add(int64_t elements, int64_t vec, int64_t most_lanes,
                                int64_t most_warps, int64_t regs);
  int64_t warps_left() const { return warps_; }
  int64_t lanes_left() const { return lanes_; }

 private:
  int64_t warps_, lanes_;
};

/// Product of the digits.
int64_t digits_extent(const std::vector<Place::Digit>& digits);

/// Elements of one access along an axis on which `bytes` wide elements lie one after another: at
/// most 16 bytes, and no more than divides the axis, unless the axis is `alone` (its vectors start
/// at multiples whatever its length).
int64_t access_elements(int64_t extent, int64_t bytes, bool alone);

}  // namespace weft
