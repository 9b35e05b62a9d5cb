#pragma once

#include "plan/kernels_by_key.h"
#include "plan/known_groups.h"

namespace weft {

/// What plannings for one target learn of groups and of their kernels, by their keys. A model is
/// planned more than once where its products are merged or its loops have another form, and most of
/// its groups are the same each time. Of plannings that measured compositions and compute_as_calls
/// are the same for.
class PlanningMemory {
 public:
  /// `measured` may be null; it outlives this.
  PlanningMemory(const Target& target, const MeasuredCompositions* measured)
      : outside{{}, KernelsByKey(target, measured)},
        inside{{}, KernelsByKey(of_region(target), measured)} {}

  struct OfTarget {
    GroupAnswers groups;
    KernelsByKey kernels;
  };
  OfTarget outside;
  OfTarget inside;  ///< of the regions of loops and conditions
};

}  // namespace weft
