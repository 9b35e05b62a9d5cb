#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace weft {
namespace {

constexpr int kOldestVersion = 12000;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Fills `functions`; the name of the first that the library lacks, empty if none.
std::string bind(void* library, CudaFunctions& functions) {
  std::string missing;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, symbol));
    if (function == nullptr && missing.empty()) missing = symbol;
  };
#define WEFT_FIND(name) find(functions.name, #name)
#define WEFT_FIND_AS(name, symbol) find(functions.name, #symbol)
  WEFT_FIND(cuInit);
  WEFT_FIND(cuDriverGetVersion);
  WEFT_FIND(cuGetErrorName);
  WEFT_FIND(cuGetErrorString);
  WEFT_FIND(cuDeviceGetCount);
  WEFT_FIND(cuDeviceGet);
  WEFT_FIND(cuDeviceGetName);
  WEFT_FIND(cuDeviceGetAttribute);
  WEFT_FIND_AS(cuDeviceTotalMem, cuDeviceTotalMem_v2);
  WEFT_FIND(cuDevicePrimaryCtxRetain);
  WEFT_FIND_AS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);
  WEFT_FIND(cuCtxSetCurrent);
  WEFT_FIND_AS(cuMemAlloc, cuMemAlloc_v2);
  WEFT_FIND_AS(cuMemFree, cuMemFree_v2);
  WEFT_FIND_AS(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2);
  WEFT_FIND_AS(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2);
  WEFT_FIND_AS(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2);
  WEFT_FIND(cuMemsetD8Async);
  WEFT_FIND(cuLibraryLoadData);
  WEFT_FIND(cuLibraryUnload);
  WEFT_FIND(cuLibraryGetKernel);
  WEFT_FIND(cuKernelGetFunction);
  WEFT_FIND(cuFuncGetAttribute);
  WEFT_FIND(cuFuncSetAttribute);
  WEFT_FIND(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  WEFT_FIND(cuLaunchKernelEx);
  WEFT_FIND(cuStreamCreate);
  WEFT_FIND_AS(cuStreamDestroy, cuStreamDestroy_v2);
  WEFT_FIND(cuStreamSynchronize);
  WEFT_FIND_AS(cuStreamBeginCapture, cuStreamBeginCapture_v2);
  WEFT_FIND(cuStreamEndCapture);
  WEFT_FIND_AS(cuGraphInstantiate, cuGraphInstantiateWithFlags);
  WEFT_FIND(cuGraphLaunch);
  WEFT_FIND(cuGraphDestroy);
  WEFT_FIND(cuGraphExecDestroy);
  WEFT_FIND(cuEventCreate);
  WEFT_FIND_AS(cuEventDestroy, cuEventDestroy_v2);
  WEFT_FIND(cuEventRecord);
  WEFT_FIND(cuEventSynchronize);
  WEFT_FIND(cuEventElapsedTime);
#undef WEFT_FIND
#undef WEFT_FIND_AS
  return missing;
}

Error missing(const std::string& message) { return {ErrorCode::kMissingDevice, message}; }

}  // namespace

Result<std::shared_ptr<const CudaDriver>> CudaDriver::load(const std::string& given) {
  const char* variable = std::getenv("WEFT_CUDA_DRIVER");
  std::string path = given;
  if (path.empty() && variable != nullptr) path = variable;
  if (path.empty()) path = "libcuda.so.1";
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return missing("no CUDA device: NVIDIA's driver was not found (looked for " + path + ": " +
                   (reason == nullptr ? "not found" : reason) + ")");
  }
  CudaFunctions functions = {};
  const std::string lacking = bind(library, functions);
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
