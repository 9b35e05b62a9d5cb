#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "codegen/cuda/emit_cuda.h"
#include "kernel/kernel_function.h"
#include "runtime/kernel_launcher.h"
#include "simt/report.h"
#include "support/result.h"

namespace weft {

struct EmulationOptions {
  /// Called after every launch; the reports count traffic where it is set.
  std::function<void(const CudaKernel&, const simt::Report&)> observe;
};

/// The CUDA text of kernels on the emulator of src/simt, numbered as given. Whatever the emulator
/// reports of a launch (a race, an access outside a buffer, …) is an error of the launch.
/// kMissingDevice where there is no compiler to build the texts with.
Result<std::shared_ptr<KernelLauncher>> emulate_kernels(
    const std::vector<const KernelFunction*>& kernels, const std::string& cache_directory,
    const EmulationOptions& options = {});

}  // namespace weft
