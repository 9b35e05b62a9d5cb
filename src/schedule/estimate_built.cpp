#include "cost/latency.h"
#include "schedule/schedule.h"
#include "tile/analysis/predict_traffic.h"

namespace weft {

void estimate_built(ScheduledKernel& kernel, const Target& target) {
  const auto traffic = predict_traffic(kernel.program, kernel.scopes);
  if (!traffic.ok()) return;
  Estimate& e = kernel.estimate;
  e.bytes_read = traffic->unique_read;
  e.bytes_written = traffic->unique_written;
  e.bytes_requested = traffic->requested_read + traffic->requested_written;
  if (!target.is_gpu())
    e.microseconds = cpu_latency(kernel.program, kernel.scopes, target).microseconds;
}

}  // namespace weft
