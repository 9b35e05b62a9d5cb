#pragma once

#include "runtime/cuda/device.h"
#include "support/result.h"
#include "target/target.h"

namespace weft {

/// The description to plan for a device by: of the known targets of its architecture the one whose
/// name the device's own contains most of, else that of the newest architecture before it; with the
/// device's counts of multiprocessors and shared memory. kMissingDevice for a device older than
/// all.
Result<Target> target_of_device(const CudaDevice::Properties& device);

}  // namespace weft
