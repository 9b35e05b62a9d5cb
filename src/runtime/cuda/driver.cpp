#include "runtime/cuda/driver.h"

#include <algorithm>
#include <array>
#include <utility>

#include "support/dynamic_library.h"

namespace weft {
namespace {

constexpr int kOldestVersion = 12000;  ///< as cuDriverGetVersion counts: CUDA 12.0

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void bind(DynamicLibrary& library, CudaFunctions& functions) {
#define WEFT_BIND(name) library.bind(functions.name, #name)
#define WEFT_BIND_AS(name, symbol) library.bind(functions.name, #symbol)
  WEFT_BIND(cuInit);
  WEFT_BIND(cuDriverGetVersion);
  WEFT_BIND(cuGetErrorName);
  WEFT_BIND(cuGetErrorString);
  WEFT_BIND(cuDeviceGetCount);
  WEFT_BIND(cuDeviceGet);
  WEFT_BIND(cuDeviceGetName);
  WEFT_BIND(cuDeviceGetAttribute);
  WEFT_BIND_AS(cuDeviceTotalMem, cuDeviceTotalMem_v2);
  WEFT_BIND(cuDevicePrimaryCtxRetain);
  WEFT_BIND_AS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
  WEFT_BIND(cuCtxSetCurrent);
  WEFT_BIND_AS(cuMemAlloc, cuMemAlloc_v2);
  WEFT_BIND_AS(cuMemFree, cuMemFree_v2);
  WEFT_BIND_AS(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2);
  WEFT_BIND_AS(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2);
  WEFT_BIND_AS(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2);
  WEFT_BIND(cuMemsetD8Async);
  WEFT_BIND(cuLibraryLoadData);
  WEFT_BIND(cuLibraryUnload);
  WEFT_BIND(cuLibraryGetKernel);
  WEFT_BIND(cuKernelGetFunction);
  WEFT_BIND(cuFuncGetAttribute);
  WEFT_BIND(cuFuncSetAttribute);
  WEFT_BIND(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  WEFT_BIND(cuLaunchKernelEx);
  WEFT_BIND(cuStreamCreate);
  WEFT_BIND_AS(cuStreamDestroy, cuStreamDestroy_v2);
  WEFT_BIND(cuStreamSynchronize);
  WEFT_BIND_AS(cuStreamBeginCapture, cuStreamBeginCapture_v2);
  WEFT_BIND(cuStreamEndCapture);
  WEFT_BIND_AS(cuGraphInstantiate, cuGraphInstantiateWithFlags);
  WEFT_BIND(cuGraphLaunch);
  WEFT_BIND(cuGraphDestroy);
  WEFT_BIND(cuGraphExecDestroy);
  WEFT_BIND(cuEventCreate);
  WEFT_BIND_AS(cuEventDestroy, cuEventDestroy_v2);
  WEFT_BIND(cuEventRecord);
  WEFT_BIND(cuEventSynchronize);
  WEFT_BIND(cuEventElapsedTime);
#undef WEFT_BIND
#undef WEFT_BIND_AS
}

Error missing(const std::string& message) { return {ErrorCode::kMissingDevice, message}; }

}  // namespace

Result<std::shared_ptr<const CudaDriver>> CudaDriver::load(const std::string& given) {
  std::string path = given.empty() ? environment_variable("WEFT_CUDA_DRIVER") : given;
  if (path.empty()) path = "libcuda.so.1";
  DynamicLibrary library = DynamicLibrary::open(path);
  if (!library.is_open()) {
    return missing("no CUDA device: NVIDIA's driver was not found (looked for " + path + ": " +
                   library.reason() + ")");
  }
  CudaFunctions functions = {};
  bind(library, functions);
  const std::string& lacking = library.lacking();
  int version = 0;
  if (functions.cuDriverGetVersion != nullptr) functions.cuDriverGetVersion(&version);
  if (!lacking.empty()) {
    return missing("the NVIDIA driver serves CUDA " + version_text(version) +
                   " and has no function " + lacking + "; CUDA " + version_text(kOldestVersion) +
                   " or later is needed: update the driver");
  }
  return from_functions(functions);
}

Result<std::shared_ptr<const CudaDriver>> CudaDriver::from_functions(
    const CudaFunctions& functions) {
  std::shared_ptr<CudaDriver> driver(new CudaDriver);
  driver->functions_ = functions;
  if (const Status status = driver->check(functions.cuInit(0), "starting the NVIDIA driver");
      !status.ok()) {
    return missing("no CUDA device: " + status.error().message);
  }
  functions.cuDriverGetVersion(&driver->version_);
  if (driver->version_ < kOldestVersion) {
    return missing("the NVIDIA driver serves CUDA " + version_text(driver->version_) + "; CUDA " +
                   version_text(kOldestVersion) + " or later is needed: update the driver");
  }
  WEFT_RETURN_IF_ERROR(
      driver->check(functions.cuDeviceGetCount(&driver->device_count_), "counting the devices"));
  if (driver->device_count_ <= 0) return missing("the NVIDIA driver finds no device");
  return std::shared_ptr<const CudaDriver>(std::move(driver));
}

Status CudaDriver::check(int result, const std::string& what) const {
  if (result == 0) return {};
  // A driver that could not start may not know its own errors.
  const char* name = nullptr;
  const char* text = nullptr;
  if (functions_.cuGetErrorName(result, &name) != 0) name = nullptr;
  if (functions_.cuGetErrorString(result, &text) != 0) text = nullptr;
  std::string message = what + " failed: ";
  message += name == nullptr ? "CUDA error " + std::to_string(result) : std::string(name);
  if (text != nullptr) message += std::string(" (") + text + ")";
  // Out of memory; an image, PTX version or architecture that this driver or device cannot take.
  constexpr std::array kMissing = {2, 100, 101, 200, 209, 222, 223, 300};
  const bool lacking = std::find(kMissing.begin(), kMissing.end(), result) != kMissing.end();
  return Error{lacking ? ErrorCode::kMissingDevice : ErrorCode::kInternal, message};
}

}  // namespace weft
