#include "schedule/gpu/rows.h"

#include <algorithm>

#include "fmt/format.h"
#include "group/join_moments.h"
#include "schedule/gpu/check_choice.h"
#include "schedule/gpu/requested_bytes.h"
#include "schedule/gpu/row_time.h"
#include "schedule/gpu/thread_stitch.h"
#include "schedule/writer/common_rows.h"
#include "support/rounding.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

/// Blocks of an SM: 32 lanes of the most threads that any has.
constexpr int64_t kMostPerSm = 64;

bool contains(const std::vector<int>& list, int axis) {
  return std::ranges::find(list, axis) != list.end();
}

/// Whether a choice of rows is one for a space.
class RowsCheck {
 public:
  RowsCheck(const GroupSpace& space, const RowsChoice& choice, const Target& target)
      : axes_(space.axes()), c_(choice), target_(target) {}

  Status run() const {
    WEFT_RETURN_IF_ERROR(check_lists());
    WEFT_RETURN_IF_ERROR(check_digits());
    WEFT_RETURN_IF_ERROR(check_split());
    WEFT_RETURN_IF_ERROR(check_walk());
    return check_cross();
  }

 private:
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  int64_t box(int axis) const { return digits_extent(digits_along(c_.digits, axis)); }

  Status check_lists() const {
    std::vector<int> free, row;
    // Rows may also be of what nothing reduces: blocks then have boxes as those of a kernel that
    // does.
    const bool reduces = !axes_.reductions.empty();
    for (size_t a = 0; a < axes_.axes.size(); ++a) {
      const int axis = static_cast<int>(a);
      const bool in_row = axes_.axes[a].reduced || (!reduces && contains(c_.row, axis));
      (in_row ? row : free).push_back(axis);
    }
    WEFT_RETURN_IF_ERROR(check_axes(axes_, free, c_.free));
    WEFT_RETURN_IF_ERROR(check_axes(axes_, row, c_.row));
    const bool none = c_.free.empty() && c_.row.empty() && c_.vec_axis == -1;
    if (none || contains(c_.free, c_.vec_axis) || contains(c_.row, c_.vec_axis)) return {};
    return invalid_input(fmt::format("vectors along axis {}", c_.vec_axis));
  }

  Status check_digits() const {
    WEFT_RETURN_IF_ERROR(check_threads(c_.digits, c_.warps));
    for (const auto& [a, list] : c_.digits) {
      if (!contains(c_.free, a) && !contains(c_.row, a)) {
        return invalid_input(fmt::format("digits along axis {}", a));
      }
    }
    if (c_.row.empty() && !c_.resident) return invalid_input("sweeps over rows of no axes");
    for (const int a : c_.row) {
      const int64_t length = a == c_.split ? c_.part : extent(a);
      if (c_.resident && box(a) < length) {
        return invalid_input(
            fmt::format("digits along axis {} that do not cover its {} elements", a, length));
      }
    }
    return {};
  }

  /// Blocks that share a row.
  Status check_split() const {
    if (c_.apart && (c_.split < 0 || c_.cluster || axes_.reductions.empty()))
      return invalid_input("nests apart of rows that are not split over the grid");
    if (c_.split < 0) {
      if (c_.parts == 1 && c_.part == 0 && !c_.cluster) return {};
      return invalid_input("parts of rows that are not split");
    }
    const bool parts = contains(c_.row, c_.split) && c_.part >= 2 && c_.part < extent(c_.split) &&
                       c_.parts == ceil_div(extent(c_.split), c_.part);
    if (!parts) {
      return invalid_input(
          fmt::format("{} parts of {} elements along axis {}", c_.parts, c_.part, c_.split));
    }
    if (c_.cluster) {
      if (c_.parts <= target_.cluster_blocks) return {};
      return invalid_input(fmt::format("clusters of {} blocks", c_.parts));
    }
    if (axes_.reductions.empty()) return {};
    // A barrier of the grid: all blocks are on the device at once.
    const bool resident = target_.grid_barriers && c_.per_sm >= 1 && c_.per_sm <= kMostPerSm &&
                          c_.per_sm * c_.warps * 32 <= target_.threads_per_sm &&
                          ceil_div(boxes_of(c_, axes_), c_.per_sm) <= target_.sm_count;
    if (resident) return {};
    return invalid_input(fmt::format("{} blocks at a barrier of the grid, {} on an SM",
                                     boxes_of(c_, axes_), c_.per_sm));
  }

  /// Blocks that take several boxes each.
  Status check_walk() const {
    constexpr int64_t kMostBlocks = INT32_MAX;
    if (c_.per_sm < 0 || c_.per_sm > kMostPerSm) {
      return invalid_input(fmt::format("{} blocks on an SM", c_.per_sm));
    }
    if (!c_.keeps) {
      if (c_.blocks == 0 && c_.kept_dims == 0 && c_.together == 1) return {};
      return invalid_input("blocks that walk and keep nothing");
    }
    const auto dims = static_cast<int64_t>(c_.free.size());
    const bool fine = c_.split < 0 && c_.cross < 0 && c_.resident && c_.kept_dims >= 0 &&
                      c_.kept_dims < dims && c_.blocks >= 1 && c_.blocks <= kMostBlocks &&
                      c_.together >= 1 && c_.together <= std::max(target_.cluster_blocks, 1) &&
                      c_.blocks % c_.together == 0;
    if (fine) return {};
    return invalid_input(fmt::format("{} blocks, {} together, that keep what {} axes change",
                                     c_.blocks, c_.together, c_.kept_dims));
  }

  /// Tiles of what lies across the vectors.
  Status check_cross() const {
    if (c_.cross < 0) {
      return c_.cross_digits.empty() ? Status{} : Status(invalid_input("digits of no tile"));
    }
    WEFT_RETURN_IF_ERROR(check_threads(c_.cross_digits, c_.warps));
    const auto loaded = [&](int a) { return digits_extent(digits_along(c_.cross_digits, a)); };
    const bool tile = c_.row.empty() && contains(c_.free, c_.cross) && c_.cross != c_.vec_axis &&
                      c_.cross_digits.size() == 2 && box(c_.cross) > 1 && box(c_.vec_axis) > 1 &&
                      box(c_.cross) == loaded(c_.cross) && box(c_.vec_axis) == loaded(c_.vec_axis);
    if (tile) return {};
    return invalid_input(fmt::format(
        "a tile along axes {} and {} that is not read as it is written", c_.vec_axis, c_.cross));
  }

  const GroupAxes& axes_;
  const RowsChoice& c_;
  const Target& target_;
};

}  // namespace

Result<ScheduledKernel> build_rows(const GroupSpace& space, const RowsChoice& choice,
                                   const Target& target, const std::string& name) {
  if (const Decision holds = holds_common_rows(space); !holds) {
    return invalid_input(holds.reason());
  }
  WEFT_RETURN_IF_ERROR(RowsCheck(space, choice, target).run());
  JoinedGroup joined{space.axes(), {}, {}};
  if (choice.joins) joined = join_moments(space.program(), space.group(), space.axes());
  if (choice.joins && (joined.moments.empty() || (choice.resident && choice.parts == 1))) {
    return invalid_input("no pairs of sums that such rows make together");
  }
  ScheduledKernel out = stitch_threads(space, joined, choice, name);
  out.layout_us = RowTime(space, joined, target).microseconds(choice).value_or(0);
  return out;
}

}  // namespace weft
