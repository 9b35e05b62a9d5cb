#pragma once

#include <string>
#include <vector>

#include "runtime/cuda/device.h"
#include "support/result.h"
#include "target/target.h"

namespace weft {

/// The description to plan for a device by: of the known targets of its architecture the one whose
/// name the device's own contains most of, else that of the newest architecture before it; with the
/// device's counts of multiprocessors and shared memory. kMissingDevice for a device older than
/// all.
Result<Target> target_of_device(const CudaDevice::Properties& device);

/// What users name: `cuda`, the GPU that is there; a name of known_targets(); a file NAME.target.
/// kMissingDevice where there is no device, and for a CPU with features that this one lacks: code
/// for a CPU is made for the one that is here, its description says how fast it is.
Result<Target> target_by_name(const std::string& name);

/// kMissingDevice for a CPU with features that this one lacks.
Status check_runs_here(const Target& target);

/// The same of several, NAME,NAME, to make code for them: CPUs of any kind, too.
Result<std::vector<Target>> targets_by_names(const std::string& names);

/// Whether the names are of targets that are known: cpu, interp or simt alone, else as
/// target_by_name has them. Looks for no device.
Status check_target_names(const std::string& names);

}  // namespace weft
