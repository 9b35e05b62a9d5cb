#pragma once

#include <vector>

#include "index/index_expr.h"
#include "kernel/kernel_function.h"

namespace weft {

/// What is known of an i64 register of a GPU's kernel, in every thread and lane.
struct IndexFact {
  Interval range = kUnbounded;
  int64_t divisor = 1;  ///< divides the value (lane 0's, of a vector); 0: the value is 0
  bool narrow() const;  ///< fits in 32 bits
};

/// By register; those of other types keep the default. Bounds come from positions, constants and
/// loop bounds: carries and loaded values are unknown.
///     %5 = apply mul %lane, 4  ->  range [0, 124], divisor 4
std::vector<IndexFact> derive_index_facts(const KernelFunction& kernel);

}  // namespace weft
