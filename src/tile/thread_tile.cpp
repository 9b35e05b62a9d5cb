#include "tile/thread_tile.h"
#include "support/rounding.h"

#include <algorithm>
#include <bit>

namespace weft {

namespace {

constexpr int64_t kAccessBytes = 16;

}  // namespace

std::vector<Place::Digit> ThreadTile::add(int64_t elements, int64_t vec, int64_t most_lanes,
                                          int64_t most_warps, int64_t regs) {
  int64_t left = ceil_div(elements, vec);
  const int64_t lanes = std::min({lanes_, most_lanes, power_above(left)});
  left = ceil_div(left, lanes);
  const int64_t warps = std::min({warps_, most_warps, power_above(left)});
  left = ceil_div(left, warps);
  if (regs > 0) left = std::min(left, regs);
  lanes_ /= lanes;
  warps_ /= warps;
  std::vector<Place::Digit> digits;
  const auto digit = [&](PlaceLevel level, int64_t extent) {
    if (extent > 1) digits.push_back({level, extent});
  };
  digit(PlaceLevel::kReg, left);
  digit(PlaceLevel::kWarp, warps);
  digit(PlaceLevel::kLane, lanes);
  digit(PlaceLevel::kVec, vec);
  return digits;
}

int64_t digits_extent(const std::vector<Place::Digit>& digits) {
  int64_t product = 1;
  for (const Place::Digit& d : digits) product *= d.extent;
  return product;
}

int64_t access_elements(int64_t extent, int64_t bytes, bool alone) {
  int64_t vec = std::max<int64_t>(kAccessBytes / std::max<int64_t>(bytes, 1), 1);
  while (vec > 1 && (vec > extent || (!alone && extent % vec != 0))) vec /= 2;
  return vec;
}

}  // namespace weft
