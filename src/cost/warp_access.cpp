#include "cost/warp_access.h"

#include <algorithm>
#include <set>

#include "tile/places.h"

namespace weft {

namespace {

constexpr int64_t kLineBytes = 128;

}  // namespace

WarpAccess warp_access(const Place& place, const std::vector<TileVarId>& box,
                       const AffineForm& offset, int64_t bytes) {
  WarpAccess out;
  int64_t width = 1;                  // elements that an instruction takes together
  std::vector<int64_t> starts = {0};  // of the lanes, in elements
  for (const Place::Axis& axis : place.axes) {
    const int64_t step = offset.coefficient(axis.var);
    if (step == 0 || std::ranges::find(box, axis.var) == box.end()) continue;
    for (const PlacedDigit& digit : placed_digits(place, axis.var)) {
      if (digit.level == PlaceLevel::kLane) {
        const std::vector<int64_t> before = starts;
        for (int64_t i = 1; i < digit.extent; ++i) {
          for (const int64_t start : before) starts.push_back(start + i * digit.divisor * step);
        }
      } else if (digit.level == PlaceLevel::kVec && step == 1) {
        width *= digit.extent;
      } else if (digit.level != PlaceLevel::kWarp) {
        out.instructions *= static_cast<double>(digit.extent);
      }
    }
  }
  std::set<int64_t> lines;
  const int64_t least = *std::ranges::min_element(starts);
  for (const int64_t start : starts) {
    const int64_t first = (start - least) * bytes, last = first + width * bytes - 1;
    for (int64_t line = first / kLineBytes; line <= last / kLineBytes; ++line) lines.insert(line);
  }
  out.lines = static_cast<double>(lines.size());
  return out;
}

}  // namespace weft
