#pragma once

#include "choice/composition_kinds.h"
#include "plan/kernel_times.h"
#include "plan/selectors/merge_greedily.h"

namespace weft {

/// Expressions a kernel: beyond this, registers run out and compile time grows faster than what a
/// further merge saves.
inline constexpr size_t kMostExpressions = 48;

/// Stitches everything that a template can hold: elementwise chains, reductions over common axes
/// with what feeds and follows them, contractions with what follows them; reductions of one tensor
/// along its rows and across them; then what blocks of stages hold, kernel by kernel. Groups merge
/// where one kernel is predicted to be quicker. Scopes are derived when the tile program is built.
///
/// All but `kinds` outlive the rule.
FusionRule stitching_rule(const TensorProgram& program, const Target& target, KernelTimes& times,
                          KnownGroups& known, CompositionKinds kinds);

}  // namespace weft
