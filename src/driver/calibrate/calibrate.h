#pragma once

#include <cstdint>
#include <string>

#include "support/result.h"
#include "target/target.h"

namespace weft {

struct CalibrationOptions {
  double seconds = 0.05;  ///< for each figure, several times over
  /// Of the largest copy, read and written together; 0: 256 MiB, on a GPU 1 GiB.
  int64_t most_bytes = 0;
};

/// `target`, a description of the machine that runs this process, with its rates measured: copy
/// bandwidth over working-set sizes, the peak of float32 fused multiply-adds, the clock that a
/// chain of them tells, the cost of starting a kernel inside a run and of a barrier of all threads.
/// Measured are KernelFunctions made for this, compiled and run as a model's are, on the target's
/// threads: what they reach is what a model's kernels can reach. Medians; other work on the machine
/// shows in them.
Result<Target> calibrate_cpu(Target target, const CalibrationOptions& options = {});

/// The same for the GPU that `target` describes and that is there: copy bandwidth, the cost of a
/// kernel in a CUDA graph, of a barrier of the grid and of one of a cluster, where there are
/// clusters, in the device's own time. Its peaks and cycles stay those of the description.
/// kMissingDevice without a driver, a device that runs the target's code, or an NVRTC that compiles
/// it.
Result<Target> calibrate_gpu(Target target, const CalibrationOptions& options = {});

/// What `name` says: cpu (this machine on so many threads, 0: all that may be used), cuda (the GPU
/// that is there) or the description of a GPU.
Result<Target> calibrate(const std::string& name, int threads,
                         const CalibrationOptions& options = {});

}  // namespace weft
