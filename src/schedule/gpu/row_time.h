#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "choice/choice.h"
#include "group/group_space.h"
#include "group/join_moments.h"
#include "group/repeated_reads.h"
#include "target/target.h"

namespace weft {

/// Threads of an SM that leave each of them 64 registers.
inline constexpr int64_t kRoomyThreads = 1024;

/// Predicts what rows take in a layout: the bytes that are moved, the part of the device that the
/// blocks keep busy, what they ask for again, and the barriers where rows are split.
class RowTime {
 public:
  /// `joined`: the group's pairs of sums, for layouts that make them together. Kept by reference,
  /// like the space and the target.
  RowTime(const GroupSpace& space, const JoinedGroup& joined, const Target& target);

  /// Nothing for element-wise layouts whose blocks do not walk: they are not compared.
  std::optional<double> microseconds(const RowsChoice& choice) const;
  double elementwise_time(const RowsChoice& choice) const;
  /// Between memory and the chip.
  double bytes_moved(const RowsChoice& choice) const;
  /// Whether a row is needed again behind a reduction of it.
  bool row_goes_on(const RowsChoice& choice) const;
  /// What stays the same along some of the grid's axes.
  const std::vector<RepeatedRead>& repeated() const { return repeated_; }

 private:
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  const GroupAxes& levels(const RowsChoice& l) const { return l.joins ? joined_.axes : axes_; }
  double request_time(const RowsChoice& l) const;
  double busy_part(int64_t blocks, int64_t warps) const;
  double barriers_us(const RowsChoice& l, int64_t blocks) const;
  double partial_bytes(const RowsChoice& l, int64_t blocks) const;
  int64_t reduction_levels(const RowsChoice& l) const;

  const GroupSpace& space_;
  const GroupAxes& axes_;
  const JoinedGroup& joined_;
  const Target& target_;
  double moved_once_ = 0;  ///< bytes of what comes from and goes to memory
  std::vector<RepeatedRead> repeated_;
};

}  // namespace weft
