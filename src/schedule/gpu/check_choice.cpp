#include "schedule/gpu/check_choice.h"

#include <algorithm>
#include <bit>

#include "fmt/format.h"

namespace weft {

namespace {

constexpr int64_t kMostThreads = 1024, kLanes = 32;
constexpr int64_t kMostOfVector = 16;
/// Elements of a block: beyond, nothing fits.
constexpr int64_t kMostElements = int64_t{1} << 31;

bool is_power(int64_t n) { return n >= 1 && std::has_single_bit(static_cast<uint64_t>(n)); }

}  // namespace

Status check_axes(const GroupAxes& space, const std::vector<int>& axes,
                  const std::vector<int>& listed) {
  std::vector<int> wanted, given = listed;
  for (const int a : axes) {
    if (space.axes[static_cast<size_t>(a)].extent > 1) wanted.push_back(a);
  }
  std::ranges::sort(wanted);
  std::ranges::sort(given);
  if (wanted == given) return {};
  return invalid_input(
      fmt::format("axes [{}] in place of [{}]", fmt::join(given, ", "), fmt::join(wanted, ", ")));
}

Status check_threads(const AxisDigits& digits, int64_t warps) {
  if (!is_power(warps) || warps > kMostThreads / kLanes) {
    return invalid_input(fmt::format("{} warps", warps));
  }
  int64_t lanes = 1, used = 1, elements = 1, vectors = 0;
  for (const auto& [axis, list] : digits) {
    for (const Place::Digit& d : list) {
      const bool threads = d.level == PlaceLevel::kLane || d.level == PlaceLevel::kWarp;
      const bool vector = d.level == PlaceLevel::kVec;
      const bool fine = d.extent >= 1 && d.extent <= kMostElements / elements &&
                        ((!threads && !vector) || is_power(d.extent)) &&
                        (!vector || (d.extent <= kMostOfVector && &d == &list.back()));
      if (!fine) return invalid_input(fmt::format("a digit of {} along axis {}", d.extent, axis));
      elements *= d.extent;
      vectors += vector ? 1 : 0;
      if (d.level == PlaceLevel::kLane) lanes *= d.extent;
      if (d.level == PlaceLevel::kWarp) used *= d.extent;
    }
  }
  if (vectors > 1) return invalid_input("vectors along two axes");
  if (lanes <= kLanes && used <= warps) return {};
  return invalid_input(fmt::format("{} lanes and {} warps of 32 and {}", lanes, used, warps));
}

const std::vector<Place::Digit>& digits_along(const AxisDigits& digits, int axis) {
  static const std::vector<Place::Digit> kNone;
  const auto at = digits.find(axis);
  return at != digits.end() ? at->second : kNone;
}

}  // namespace weft
