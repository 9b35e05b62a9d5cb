#pragma once

#include <set>
#include <vector>

#include "schedule/central_moments.h"

namespace weft {

/// A group whose sums and second moments are made together: levels as join_sweeps gives them, each
/// sum in one pair at most.
struct JoinedGroup {
  GroupAxes axes;
  std::vector<CentralMoment> moments;
  /// Members that nothing needs any more: what only the second moments read.
  std::set<int> unused;
  const CentralMoment* with_sum(int position) const;
  const CentralMoment* with_second(int position) const;
};
JoinedGroup join_moments(const TensorProgram& program, const Group& group, const GroupAxes& axes);

/// What a thread has of the elements that it went over: how many, the first of them (the shift, 0
/// where it is not finite), Σ (x - shift) and Σ (x - shift)². The shift is one of the elements, so
/// that squares of it are no larger than what they are part of.
struct ShiftedSums {
  ScalarRef count, shift, sum, squares;
};
/// The shift that begins with x.
ScalarRef shift_of(const ScalarRef& x);
/// Σ x.
ScalarRef total_of(const ShiftedSums& sums);
/// Σ (x - mean)² = squares + e (2 sum + count e), e = shift - mean.
ScalarRef moment_about(const ShiftedSums& sums, const ScalarRef& mean);

/// Σ (x - mean)² of a part with `count` terms, their total, and their moment about their own mean.
ScalarRef moment_of_part(const ScalarRef& count, const ScalarRef& total, const ScalarRef& moment,
                         const ScalarRef& mean);

}  // namespace weft
