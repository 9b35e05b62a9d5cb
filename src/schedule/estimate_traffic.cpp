#include "schedule/schedule.h"
#include "tile/analysis/predict_traffic.h"

namespace weft {

void estimate_traffic(ScheduledKernel& kernel) {
  const auto traffic = predict_traffic(kernel.program, kernel.scopes);
  if (!traffic.ok()) return;
  Estimate& e = kernel.estimate;
  e.bytes_read = traffic->unique_read;
  e.bytes_written = traffic->unique_written;
  e.bytes_requested = traffic->requested_read + traffic->requested_written;
}

}  // namespace weft
