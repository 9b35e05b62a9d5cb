#pragma once

#include "target/cpu_features.h"
#include "target/cpu_limits.h"
#include "target/target.h"

namespace weft {

/// The target of so many threads of a CPU, by what it says of itself: rates are modelled from
/// vector width, clock and vendor, never measured, so that every call gives the same. `ghz` 0: not
/// known.
Target model_cpu(const CpuIdentity& identity, const CacheSizes& caches, double ghz, int threads);

}  // namespace weft
