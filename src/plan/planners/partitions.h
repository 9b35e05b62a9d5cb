#pragma once

#include "choice/composition_kinds.h"
#include "plan/partition.h"
#include "target/target.h"

namespace weft {

/// The partition of each planner, by compositions of these kinds.
Partition partition_none(const TensorProgram& program, const Target& target, CompositionKinds);
Partition partition_xla(const TensorProgram& program, const Target& target, CompositionKinds);
Partition partition_greedy(const TensorProgram& program, const Target& target, CompositionKinds);
Partition partition_dp(const TensorProgram& program, const Target& target, CompositionKinds);

}  // namespace weft
