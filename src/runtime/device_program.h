#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/device.h"
#include "runtime/cuda/library_routine.h"
#include "runtime/program.h"
#include "support/result.h"

namespace weft {

/// Whether code for `arch` ("sm_80", "sm_90a") runs on a device: the same major version and a minor
/// one that is not higher; with a letter, exactly that device.
bool arch_runs_on(const std::string& arch, const CudaDevice::Properties& device);

/// The code and constants of a GPU's program, on a device. Immutable: any number of runs share one.
class DeviceProgram {
 public:
  /// Loads every kernel and copies the constants. kMissingDevice, naming the kernel, when the
  /// device cannot run it: another architecture, too many threads or too much shared memory for a
  /// block, a library that is not there and whose calls have no kernel of their own, or fewer
  /// blocks resident at once than a barrier of the grid waits for.
  static Result<std::shared_ptr<const DeviceProgram>> load(
      const Program& program, std::shared_ptr<const CudaDevice> device);

  const std::shared_ptr<const CudaDevice>& device() const { return device_; }
  /// By number in Program::kernels.
  const LoadedCudaKernel& kernel(int32_t number) const {
    return kernels_[static_cast<size_t>(number)];
  }
  /// What a library does in the place of kernel `number`, if one does.
  const std::optional<LibraryCall>& library_call(int32_t number) const {
    return calls_[static_cast<size_t>(number)];
  }
  /// What the device lacks of what the program was compiled for, and what serves instead: a line
  /// each.
  const std::vector<std::string>& notes() const { return notes_; }
  /// By number in Program::constants.
  CudaAddress constant(int32_t number) const { return constants_[static_cast<size_t>(number)]; }

 private:
  DeviceProgram() = default;
  Status load_kernel(const KernelImage& image, VendorLibraries& libraries);
  Result<bool> use_library(const KernelImage& image, VendorLibraries& libraries);
  Status copy_constants(const std::vector<HostTensor>& constants);

  std::shared_ptr<const CudaDevice> device_;
  std::vector<std::shared_ptr<const CudaModule>> modules_;
  std::vector<LoadedCudaKernel> kernels_;          ///< of a library call: its name alone
  std::vector<std::optional<LibraryCall>> calls_;  ///< by kernel
  std::vector<std::string> notes_;
  CudaMemory memory_;
  std::vector<CudaAddress> constants_;
};

/// The first device of NVIDIA's driver (see CudaDriver::load), which stays open while anything uses
/// it. kMissingDevice when there is none.
Result<std::shared_ptr<const CudaDevice>> open_cuda_device();

}  // namespace weft
