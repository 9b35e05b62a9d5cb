#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/cublas.h"
#include "runtime/cuda/device.h"
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
  /// block, a library that is not there, or fewer blocks resident at once than a barrier of the
  /// grid waits for.
  static Result<std::shared_ptr<const DeviceProgram>> load(
      const Program& program, std::shared_ptr<const CudaDevice> device);

  const std::shared_ptr<const CudaDevice>& device() const { return device_; }
  /// By number in Program::kernels.
  const LoadedCudaKernel& kernel(int32_t number) const {
    return kernels_[static_cast<size_t>(number)];
  }
  /// What a library does in the place of kernel `number`, if one does, and that library.
  const std::optional<LibraryCall>& library_call(int32_t number) const {
    return calls_[static_cast<size_t>(number)];
  }
  const std::shared_ptr<const Cublas>& cublas() const { return cublas_; }
  /// By number in Program::constants.
  CudaAddress constant(int32_t number) const { return constants_[static_cast<size_t>(number)]; }

 private:
  DeviceProgram() = default;
  Status load_kernel(const KernelImage& image);
  Status copy_constants(const std::vector<HostTensor>& constants);

  std::shared_ptr<const CudaDevice> device_;
  std::vector<std::shared_ptr<const CudaModule>> modules_;
  std::vector<LoadedCudaKernel> kernels_;          ///< of a library call: its name alone
  std::vector<std::optional<LibraryCall>> calls_;  ///< by kernel
  std::shared_ptr<const Cublas> cublas_;           ///< where there is such a call
  CudaMemory memory_;
  std::vector<CudaAddress> constants_;
};

/// The first device of NVIDIA's driver (see CudaDriver::load), which stays open while anything uses
/// it. kMissingDevice when there is none.
Result<std::shared_ptr<const CudaDevice>> open_cuda_device();

}  // namespace weft
