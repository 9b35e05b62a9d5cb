#pragma once

#include "plan/partition.h"
#include "target/target.h"

namespace weft {

/// The partition of each planner.
Partition partition_none(const TensorProgram& program, const Target& target);
Partition partition_xla(const TensorProgram& program, const Target& target);
Partition partition_greedy(const TensorProgram& program, const Target& target);

}  // namespace weft
