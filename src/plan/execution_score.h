#pragma once

#include <optional>
#include <span>

#include "choice/measured_compositions.h"
#include "plan/known_groups.h"

namespace weft {

/// The evaluator `execution` (FusionStitching 2019 §4.3): what one kernel gains over several by
/// times that were measured, ΣK(part) + (N - 1) φ - K(merged). K is that of the quickest of a
/// group's compositions in the performance library.
class ExecutionScore {
 public:
  /// `priced`: the target, φ its launch and barrier. `measured` (may be null) and what else is
  /// referred to outlive this.
  ExecutionScore(const Target& priced, const MeasuredCompositions* measured, KnownGroups& known)
      : phi_us_(priced.start_us()), measured_(measured), known_(known) {}

  /// Microseconds; minus infinity where no template builds the kernel. Nothing where one of the
  /// groups was not measured: measured and predicted times are not added up.
  std::optional<double> gain_us(std::span<const Group> parts, const Group& merged) const;

 private:
  std::optional<double> measured_us(const Group& group) const;

  double phi_us_;
  const MeasuredCompositions* measured_;
  KnownGroups& known_;
};

}  // namespace weft
