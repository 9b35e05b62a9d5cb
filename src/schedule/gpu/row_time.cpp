#include "schedule/gpu/row_time.h"

#include <algorithm>
#include <set>

#include "cost/estimate.h"
#include "schedule/gpu/check_choice.h"
#include "schedule/gpu/requested_bytes.h"
#include "support/rounding.h"
#include "target/gpu_rates.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

/// All blocks take as many boxes as the one with the most.
double turns_of(int64_t boxes, int64_t blocks) {
  return static_cast<double>(ceil_div(boxes, blocks) * blocks) / static_cast<double>(boxes);
}

}  // namespace

RowTime::RowTime(const GroupSpace& space, const JoinedGroup& joined, const Target& target)
    : space_(space), axes_(space.axes()), joined_(joined), target_(target) {
  const Estimate all =
      CostModel(space.declared(), target).estimate(space.group().exprs, space.group().outputs);
  moved_once_ = static_cast<double>(all.bytes_read) + static_cast<double>(all.bytes_written);
  std::vector<int> free;
  for (size_t a = 0; a < axes_.axes.size(); ++a) {
    if (axes_.axes[a].extent != 1 && !axes_.axes[a].reduced) free.push_back(static_cast<int>(a));
  }
  repeated_ = repeated_reads(space_.program(), space_.group(), axes_, free);
}

std::optional<double> RowTime::microseconds(const RowsChoice& l) const {
  if (l.row.empty()) return l.keeps ? std::optional(elementwise_time(l)) : std::nullopt;
  const int64_t boxes = boxes_of(l, axes_), blocks = l.blocks > 0 ? l.blocks : boxes;
  const double busy = busy_part(blocks, l.warps);
  const double bytes = bytes_moved(l) + partial_bytes(l, blocks);
  return memory_us(bytes, busy / turns_of(boxes, blocks), target_) + request_time(l) +
         barriers_us(l, blocks);
}

double RowTime::elementwise_time(const RowsChoice& l) const {
  const int64_t boxes = boxes_of(l, axes_), blocks = l.blocks > 0 ? l.blocks : boxes;
  return memory_us(bytes_moved(l), busy_part(blocks, l.warps) / turns_of(boxes, blocks), target_) +
         request_time(l);
}

/// What is read again comes out of the second-level cache.
double RowTime::request_time(const RowsChoice& l) const {
  double rate = 1;
  for (const auto& point : target_.bandwidth) rate = std::max(rate, point.gb_per_s);
  return requested_bytes(repeated_, l, axes_) / (rate * 1e3);
}

double RowTime::busy_part(int64_t blocks, int64_t warps) const {
  return std::min({1.0,
                   static_cast<double>(blocks * warps * 32) / (target_.sm_count * kBusyThreads),
                   static_cast<double>(blocks) / target_.sm_count});
}

/// One for each level of reductions, or behind what blocks load together; blocks of a cluster also
/// wait for each other at the end, and come in rounds where the device does not hold them all.
double RowTime::barriers_us(const RowsChoice& l, int64_t blocks) const {
  if (l.together > 1) return 2 * target_.cluster_barrier_us;
  if (l.parts == 1) return 0;
  const auto levels = static_cast<double>(reduction_levels(l));
  if (!l.cluster) return target_.barrier_us * levels;
  const int64_t rounds = ceil_div(blocks * l.warps * 32, target_.sm_count * kRoomyThreads);
  return target_.cluster_barrier_us * (levels + 1) * static_cast<double>(rounds);
}

/// Whether a row is needed again behind a reduction of it.
bool RowTime::row_goes_on(const RowsChoice& l) const {
  for (int p = 0; p < space_.size(); ++p) {
    const auto& own = axes_.axis_of[static_cast<size_t>(p)];
    const bool row = std::any_of(own.begin(), own.end(), [&](int a) {
      return axes_.axes[static_cast<size_t>(a)].reduced && extent(a) > 1;
    });
    if (l.joins && joined_.unused.count(p) != 0) continue;
    if (row && levels(l).level[static_cast<size_t>(p)] > 0) return true;
  }
  return false;
}

/// What blocks leave for each other and read: all of them where the row goes on behind the
/// reduction, else each part once.
double RowTime::partial_bytes(const RowsChoice& l, int64_t blocks) const {
  if (l.parts == 1 || l.cluster) return 0;
  const bool goes_on = row_goes_on(l);
  const int64_t results = goes_on ? blocks / l.parts : 1;
  int64_t own = 1;
  for (const int a : l.free) {
    own *= goes_on ? std::max<int64_t>(digits_extent(digits_along(l.digits, a)), 1) : extent(a);
  }
  constexpr double kResultBytes = 4;
  return kResultBytes * static_cast<double>(axes_.reductions.size()) *
         static_cast<double>(l.parts) * static_cast<double>(own) *
         static_cast<double>(goes_on ? results * l.parts : 2);
}

/// Sweeps, and nests apart, read again what each level needs; about half of that is taken to miss
/// the caches.
double RowTime::bytes_moved(const RowsChoice& l) const {
  if ((l.resident && !l.apart) || !row_goes_on(l)) return moved_once_;
  return moved_once_ + moved_once_ / 2 * static_cast<double>(levels(l).levels - 1);
}

/// Levels at which something is reduced.
int64_t RowTime::reduction_levels(const RowsChoice& l) const {
  std::set<int> own;
  for (const int p : axes_.reductions) own.insert(levels(l).level[static_cast<size_t>(p)]);
  return static_cast<int64_t>(own.size());
}

}  // namespace weft
