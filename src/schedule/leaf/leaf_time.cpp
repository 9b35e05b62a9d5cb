#include "schedule/leaf/leaf_time.h"

#include <algorithm>

#include "cost/gpu_latency.h"
#include "cost/latency.h"

namespace weft {

double leaf_us(const ScheduledKernel& kernel, int64_t bytes, const Target& target) {
  if (!target.is_gpu()) return cpu_latency(kernel.program, kernel.scopes, target).microseconds;
  if (kernel.predicted_us) return *kernel.predicted_us;
  return std::max(gpu_latency(kernel.program, kernel.scopes, bytes, target).microseconds,
                  target.start_us() + kernel.layout_us);
}

}  // namespace weft
