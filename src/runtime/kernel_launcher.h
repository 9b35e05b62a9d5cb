#pragma once

#include <cstdint>
#include <span>

#include "support/result.h"

namespace weft {

/// Runs a program's kernels elsewhere than as machine code on the threads of a run: on a device, or
/// on an emulator of one. A run with a launcher has one thread.
class KernelLauncher {
 public:
  virtual ~KernelLauncher() = default;
  /// Kernel number `kernel` of the program on these addresses, one for each of its buffers. What it
  /// writes is there when it returns. An error ends the run.
  virtual Status launch(int32_t kernel, std::span<void* const> buffers,
                        std::span<const int64_t> arguments) = 0;
};

}  // namespace weft
