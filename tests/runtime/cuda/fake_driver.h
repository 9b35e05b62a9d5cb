#pragma once

#include "runtime/cuda/driver.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace weft {

/// A driver of one device in host memory, which writes down what is asked of it. Kernels are
/// functions of this process: the image that a module is loaded from is a FakeKernel.
struct FakeKernel {
  const char* name;
  void (*run)(const CudaLaunchConfig& config, void** arguments);
};

class FakeDriver {
 public:
  /// The fake whose functions are called; one at a time.
  static FakeDriver& now() { return *instance(); }

  FakeDriver() { instance() = this; }
  ~FakeDriver() { instance() = nullptr; }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  CudaFunctions functions() const;

  std::vector<std::string> calls;
  std::map<std::string, int> failures;  ///< by function: what it returns
  int version = 12080;
  int devices = 1;
  int cooperative = 1;
  int capturing = 0;
  int contexts = 0, allocations = 0, libraries = 0, streams = 0, graphs = 0, events = 0;

  /// Notes the call; its result.
  int call(const std::string& name, const std::string& what = "") {
    calls.push_back(what.empty() ? name : name + " " + what);
    const auto at = failures.find(name);
    return at == failures.end() ? 0 : at->second;
  }

 private:
  static FakeDriver*& instance() {
    static FakeDriver* fake = nullptr;
    return fake;
  }
};

inline CudaFunctions FakeDriver::functions() const {
  CudaFunctions f = {};
  f.cuInit = [](unsigned int) { return now().call("cuInit"); };
  f.cuDriverGetVersion = [](int* served) {
    *served = now().version;
    return 0;
  };
  f.cuGetErrorName = [](int error, const char** name) {
    *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_TEST";
    return error == 999 ? 1 : 0;
  };
  f.cuGetErrorString = [](int, const char** text) {
    *text = "as the test asked";
    return 0;
  };
  f.cuDeviceGetCount = [](int* count) {
    *count = now().devices;
    return 0;
  };
  f.cuDeviceGet = [](int* device, int ordinal) {
    *device = ordinal;
    return 0;
  };
  f.cuDeviceGetName = [](char* name, int, int) {
    std::strcpy(name, "Fake GPU");
    return 0;
  };
  f.cuDeviceGetAttribute = [](int* value, int attribute, int) {
    const std::map<int, int> values = {
        {16, 4}, {75, 9}, {76, 0}, {95, now().cooperative}, {97, 232448}};
    *value = values.at(attribute);
    return 0;
  };
  f.cuDeviceTotalMem = [](size_t* bytes, int) {
    *bytes = size_t{1} << 30;
    return 0;
  };
  f.cuDevicePrimaryCtxRetain = [](void** context, int) {
    *context = &now().contexts;
    ++now().contexts;
    return now().call("cuDevicePrimaryCtxRetain");
  };
  f.cuDevicePrimaryCtxRelease = [](int) { return --now().contexts, 0; };
  f.cuCtxSetCurrent = [](void*) { return 0; };
  f.cuMemAlloc = [](CudaAddress* address, size_t bytes) {
    const int result = now().call("cuMemAlloc", std::to_string(bytes));
    if (result != 0) return result;
    *address = reinterpret_cast<CudaAddress>(new char[bytes]);
    ++now().allocations;
    return 0;
  };
  f.cuMemFree = [](CudaAddress address) {
    delete[] reinterpret_cast<char*>(address);
    return --now().allocations, 0;
  };
  f.cuMemcpyHtoDAsync = [](CudaAddress to, const void* from, size_t bytes, void*) {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return now().call("cuMemcpyHtoDAsync");
  };
  f.cuMemcpyDtoHAsync = [](void* to, CudaAddress from, size_t bytes, void*) {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return now().call("cuMemcpyDtoHAsync");
  };
  f.cuMemcpyDtoDAsync = [](CudaAddress to, CudaAddress from, size_t bytes, void*) {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return now().call("cuMemcpyDtoDAsync");
  };
  f.cuMemsetD8Async = [](CudaAddress to, unsigned char value, size_t bytes, void*) {
    std::memset(reinterpret_cast<void*>(to), value, bytes);
    return now().call("cuMemsetD8Async");
  };
  f.cuLibraryLoadData = [](void** library, const void* code, void*, void**, unsigned int, void*,
                           void**, unsigned int) {
    const int result = now().call("cuLibraryLoadData");
    if (result != 0) return result;
    *library = const_cast<void*>(code);
    ++now().libraries;
    return 0;
  };
  f.cuLibraryUnload = [](void*) { return --now().libraries, 0; };
  f.cuLibraryGetKernel = [](void** kernel, void* library, const char* name) {
    *kernel = library;
    return std::strcmp(static_cast<FakeKernel*>(library)->name, name) == 0 ? 0 : 500;
  };
  f.cuKernelGetFunction = [](void** function, void* kernel) {
    *function = kernel;
    return 0;
  };
  f.cuFuncGetAttribute = [](int* value, int attribute, void*) {
    *value = attribute == 4 ? 40 : 1024;
    return 0;
  };
  f.cuFuncSetAttribute = [](void*, int attribute, int value) {
    return now().call("cuFuncSetAttribute",
                      std::to_string(attribute) + " " + std::to_string(value));
  };
  f.cuOccupancyMaxActiveBlocksPerMultiprocessor = [](int* blocks, void*, int threads, size_t) {
    *blocks = 2048 / threads;
    return 0;
  };
  f.cuLaunchKernelEx = [](const CudaLaunchConfig* config, void* function, void** arguments,
                          void**) {
    std::string what = std::to_string(config->grid[0]) + "x" + std::to_string(config->block[0]) +
                       " shared " + std::to_string(config->shared_bytes);
    for (unsigned int i = 0; i < config->attribute_count; ++i) {
      const CudaLaunchAttribute& attribute = config->attributes[i];
      what += attribute.id == CudaLaunchAttribute::kCooperative
                  ? " cooperative " + std::to_string(attribute.value.cooperative)
                  : " cluster " + std::to_string(attribute.value.cluster[0]);
    }
    const int result = now().call("cuLaunchKernelEx", what);
    if (result == 0) static_cast<FakeKernel*>(function)->run(*config, arguments);
    return result;
  };
  f.cuStreamCreate = [](void** stream, unsigned int) {
    *stream = &now().streams;
    return ++now().streams, 0;
  };
  f.cuStreamDestroy = [](void*) { return --now().streams, 0; };
  f.cuStreamSynchronize = [](void*) { return now().call("cuStreamSynchronize"); };
  f.cuStreamBeginCapture = [](void*, int) {
    ++now().capturing;
    return now().call("cuStreamBeginCapture");
  };
  f.cuStreamEndCapture = [](void*, void** graph) {
    --now().capturing;
    *graph = &now().graphs;
    ++now().graphs;
    return now().call("cuStreamEndCapture");
  };
  f.cuGraphInstantiate = [](void** executable, void*, unsigned long long) {
    const int result = now().call("cuGraphInstantiate");
    if (result != 0) return result;
    *executable = &now().graphs;
    return ++now().graphs, 0;
  };
  f.cuGraphLaunch = [](void*, void*) { return now().call("cuGraphLaunch"); };
  f.cuGraphDestroy = [](void*) { return --now().graphs, 0; };
  f.cuGraphExecDestroy = [](void*) { return --now().graphs, 0; };
  f.cuEventCreate = [](void** event, unsigned int) {
    *event = &now().events;
    return ++now().events, 0;
  };
  f.cuEventDestroy = [](void*) { return --now().events, 0; };
  f.cuEventRecord = [](void*, void*) { return now().call("cuEventRecord"); };
  f.cuEventSynchronize = [](void*) { return 0; };
  f.cuEventElapsedTime = [](float* milliseconds, void*, void*) {
    *milliseconds = 0.25f;
    return 0;
  };
  return f;
}

}  // namespace weft
