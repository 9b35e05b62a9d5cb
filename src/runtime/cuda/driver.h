#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "support/result.h"

namespace weft {

// Names and layouts of cuda.h (CUDA 12.0 and later), as far as they are used: the driver is found
// when a program runs, so nothing of CUDA is needed to build.

using CudaAddress = unsigned long long;  ///< CUdeviceptr

struct CudaLaunchAttribute {  // NOLINT(bugprone-tagged-union-member-count)
  enum Id : unsigned int { kCooperative = 2, kClusterDimension = 4 };
  Id id = kCooperative;
  unsigned int padding = 0;
  union {
    char bytes[64];
    int cooperative;
    unsigned int cluster[3];
  } value = {};
};
static_assert(sizeof(CudaLaunchAttribute) == 72);

struct CudaLaunchConfig {
  unsigned int grid[3] = {1, 1, 1};
  unsigned int block[3] = {1, 1, 1};
  unsigned int shared_bytes = 0;
  void* stream = nullptr;
  CudaLaunchAttribute* attributes = nullptr;
  unsigned int attribute_count = 0;
};
static_assert(sizeof(CudaLaunchConfig) == 56);

/// The driver's functions under their names without version suffixes. Each returns a CUresult, 0
/// for success.
struct CudaFunctions {
  // NOLINTBEGIN(readability-identifier-naming)
  int (*cuInit)(unsigned int);
  int (*cuDriverGetVersion)(int*);
  int (*cuGetErrorName)(int, const char**);
  int (*cuGetErrorString)(int, const char**);
  int (*cuDeviceGetCount)(int*);
  int (*cuDeviceGet)(int*, int);
  int (*cuDeviceGetName)(char*, int, int);
  int (*cuDeviceGetAttribute)(int*, int, int);
  int (*cuDeviceTotalMem)(size_t*, int);
  int (*cuDevicePrimaryCtxRetain)(void**, int);
  int (*cuDevicePrimaryCtxRelease)(int);
  int (*cuCtxSetCurrent)(void*);
  int (*cuMemAlloc)(CudaAddress*, size_t);
  int (*cuMemFree)(CudaAddress);
  int (*cuMemcpyHtoDAsync)(CudaAddress, const void*, size_t, void*);
  int (*cuMemcpyDtoHAsync)(void*, CudaAddress, size_t, void*);
  int (*cuMemcpyDtoDAsync)(CudaAddress, CudaAddress, size_t, void*);
  int (*cuMemsetD8Async)(CudaAddress, unsigned char, size_t, void*);
  int (*cuLibraryLoadData)(void**, const void*, void*, void**, unsigned int, void*, void**,
                           unsigned int);
  int (*cuLibraryUnload)(void*);
  int (*cuLibraryGetKernel)(void**, void*, const char*);
  int (*cuKernelGetFunction)(void**, void*);
  int (*cuFuncGetAttribute)(int*, int, void*);
  int (*cuFuncSetAttribute)(void*, int, int);
  int (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int*, void*, int, size_t);
  int (*cuLaunchKernelEx)(const CudaLaunchConfig*, void*, void**, void**);
  int (*cuStreamCreate)(void**, unsigned int);
  int (*cuStreamDestroy)(void*);
  int (*cuStreamSynchronize)(void*);
  int (*cuStreamBeginCapture)(void*, int);
  int (*cuStreamEndCapture)(void*, void**);
  int (*cuGraphInstantiate)(void**, void*, unsigned long long);
  int (*cuGraphLaunch)(void*, void*);
  int (*cuGraphDestroy)(void*);
  int (*cuGraphExecDestroy)(void*);
  int (*cuEventCreate)(void**, unsigned int);
  int (*cuEventDestroy)(void*);
  int (*cuEventRecord)(void*, void*);
  int (*cuEventSynchronize)(void*);
  int (*cuEventElapsedTime)(float*, void*, void*);
  // NOLINTEND(readability-identifier-naming)
};

/// NVIDIA's driver, loaded and initialised. Stays loaded until the process ends.
class CudaDriver {
 public:
  /// Looks for the library: `path` if given, else $WEFT_CUDA_DRIVER, else libcuda.so.1 in the
  /// loader's folders. kMissingDevice, saying what was looked for, when there is no driver, it is
  /// too old or it finds no device. The toolkit's stub library is never looked for.
  static Result<std::shared_ptr<const CudaDriver>> load(const std::string& path = "");
  /// The same over given functions: those of another implementation, or of a test.
  static Result<std::shared_ptr<const CudaDriver>> from_functions(const CudaFunctions& functions);

  const CudaFunctions& functions() const { return functions_; }
  int version() const { return version_; }  ///< 1000 * major + 10 * minor of the CUDA it serves
  int device_count() const { return device_count_; }

  /// Success, or an error that says what was attempted and what the driver calls the failure:
  /// kMissingDevice for exhausted memory and code that the device or the driver cannot take, else
  /// kInternal.
  Status check(int result, const std::string& what) const;

 private:
  CudaDriver() = default;
  CudaFunctions functions_ = {};
  int version_ = 0;
  int device_count_ = 0;
};

}  // namespace weft
