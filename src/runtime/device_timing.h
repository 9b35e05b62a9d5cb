#pragma once

#include <cstdint>

#include "runtime/device_run.h"
#include "support/result.h"

namespace weft {

/// Microseconds of a GPU for one run between the copies of its inputs and outputs, and for copying
/// as many bytes on the device as the run's inputs and outputs hold together (read and written), so
/// that the ratio of the two is a share of the copy bandwidth at this size.
///
/// Warm: runs follow each other, so that what fits stays in the second-level cache. Flushed: before
/// each, other memory is written, several times as large as any such cache; its time is taken off.
struct DeviceTimes {
  double warm_us = 0, flushed_us = 0;
  double copy_warm_us = 0, copy_flushed_us = 0;
  int64_t copied_bytes = 0;  ///< read; as many are written
};

/// Measures a run whose program is one graph (kInvalidInput for others), after a first run. Medians
/// of several rounds.
Result<DeviceTimes> time_on_device(DeviceRun& run);

}  // namespace weft
