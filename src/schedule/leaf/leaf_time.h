#pragma once

#include "schedule/writer/scheduled_kernel.h"
#include "target/target.h"

namespace weft {

/// What a leaf takes, in microseconds: by its program (cost/latency, cost/gpu_latency), on a GPU no
/// less than by the model of its layout, which knows what blocks ask for again and where they wait
/// for each other. A GPU's products have a model of their own. `bytes`: read and written.
double leaf_us(const ScheduledKernel& kernel, int64_t bytes, const Target& target);

}  // namespace weft
