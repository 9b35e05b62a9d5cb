// The driver's functions over host memory and the emulator of src/simt.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/cuda/driver.h"
#include "simt/launch.h"
#include "simt/module.h"
#include "tests/emulated_cuda/image.h"
#include "tests/emulated_cuda/streams.h"

namespace {

using weft::CudaAddress;
using weft::CudaLaunchAttribute;
using weft::CudaLaunchConfig;
using weft::kImageMagic;
namespace simt = weft::simt;

constexpr int kInvalidValue = 1, kNoBinary = 209, kNotFound = 500, kLaunchFailed = 719;
constexpr int kTooManyBlocks = 720;
constexpr size_t kSharedPerSm = 233472;

struct Device {
  std::string name = "NVIDIA H100 80GB HBM3";
  int capability = 90, sms = 132;
};

struct Kernel {
  std::shared_ptr<const simt::Module> module;
  std::string name;
  uint32_t arity = 0;
};

struct Library {
  std::shared_ptr<const simt::Module> module;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

using Operation = std::function<int()>;

struct Graph {
  std::vector<Operation> operations;
};

struct Stream {
  std::unique_ptr<Graph> capture;
};

/// The process has one device; handles point to what stands here.
struct State {
  Device device;
  std::map<CudaAddress, size_t> memory;
  simt::Emulator emulator;

  State() {
    const char* chosen = std::getenv("WEFT_EMULATED_DEVICE");
    if (chosen == nullptr) return;
    std::istringstream text(chosen);
    std::string capability, sms;
    std::getline(text, device.name, ':');
    std::getline(text, capability, ':');
    std::getline(text, sms, ':');
    device.capability = static_cast<int>(std::strtol(capability.c_str(), nullptr, 10));
    device.sms = static_cast<int>(std::strtol(sms.c_str(), nullptr, 10));
  }
};

State& state() {
  static State now;
  return now;
}

int submit(void* stream, Operation operation) {
  return weft::submit_to_stream(stream, std::move(operation));
}

int blocks_per_sm(int threads, size_t shared_bytes) {
  const int by_threads = 2048 / std::max(threads, 1);
  const int by_shared =
      shared_bytes == 0 ? 32 : static_cast<int>(kSharedPerSm / (shared_bytes + 1024));
  return std::min({by_threads, by_shared, 32});
}

int run(const Kernel& kernel, const simt::LaunchShape& shape,
        const std::vector<unsigned long long>& values) {
  std::vector<simt::Buffer> buffers;
  for (const auto& [address, bytes] : state().memory) {
    buffers.push_back(
        {"memory", reinterpret_cast<std::byte*>(address), bytes, simt::Buffer::Use::kReadWrite});
  }
  std::vector<simt::Argument> arguments(values.begin(), values.end());
  simt::LaunchOptions options;
  options.check = false;
  const auto report =
      state().emulator.launch(*kernel.module, kernel.name, shape, buffers, arguments, options);
  if (report.ok() && report->clean()) return 0;
  std::fprintf(stderr, "%s\n",
               report.ok() ? print(*report).c_str() : report.error().message.c_str());
  return kLaunchFailed;
}

}  // namespace

int weft::submit_to_stream(void* stream, std::function<int()> operation) {
  auto* target = static_cast<Stream*>(stream);
  if (target == nullptr || target->capture == nullptr) return operation();
  target->capture->operations.push_back(std::move(operation));
  return 0;
}

extern "C" {

int cuInit(unsigned int) { return 0; }
int cuDriverGetVersion(int* version) {
  const char* chosen = std::getenv("WEFT_EMULATED_DRIVER");
  *version = chosen == nullptr ? 13000 : static_cast<int>(std::strtol(chosen, nullptr, 10));
  return 0;
}
int cuGetErrorName(int error, const char** name) {
  *name = error == kNoBinary       ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
          : error == kLaunchFailed ? "CUDA_ERROR_LAUNCH_FAILED"
                                   : "CUDA_ERROR";
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "of the emulated driver";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? 0 : kInvalidValue;
}
int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "%s", state().device.name.c_str());
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const Device& d = state().device;
  const std::map<int, int> values = {{16, d.sms},
                                     {75, d.capability / 10},
                                     {76, d.capability % 10},
                                     {95, 1},
                                     {97, d.capability >= 90 ? 232448 : 101376}};
  const auto at = values.find(attribute);
  if (at == values.end()) return kInvalidValue;
  *value = at->second;
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{8} << 30;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &state();
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }

int cuMemAlloc_v2(CudaAddress* address, size_t bytes) {
  constexpr size_t kAlignment = 256;
  void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr) return 2;
  std::memset(memory, 0xff, bytes);
  *address = reinterpret_cast<CudaAddress>(memory);
  state().memory[*address] = bytes;
  return 0;
}
int cuMemFree_v2(CudaAddress address) {
  if (state().memory.erase(address) == 0) return kInvalidValue;
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
int cuMemcpyHtoDAsync_v2(CudaAddress to, const void* from, size_t bytes, void* stream) {
  return submit(stream, [=] { return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0; });
}
int cuMemcpyDtoHAsync_v2(void* to, CudaAddress from, size_t bytes, void* stream) {
  return submit(stream, [=] { return std::memcpy(to, reinterpret_cast<void*>(from), bytes), 0; });
}
int cuMemcpyDtoDAsync_v2(CudaAddress to, CudaAddress from, size_t bytes, void* stream) {
  return submit(stream, [=] {
    return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes), 0;
  });
}
int cuMemsetD8Async(CudaAddress to, unsigned char value, size_t bytes, void* stream) {
  return submit(stream, [=] { return std::memset(reinterpret_cast<void*>(to), value, bytes), 0; });
}

int cuLibraryLoadData(void** library, const void* code, void*, void**, unsigned int, void*, void**,
                      unsigned int) {
  // Real cubins tell their size; these end with the text.
  const char* image = static_cast<const char*>(code);
  if (std::strncmp(image, kImageMagic.data(), kImageMagic.size()) != 0) return 200;
  const std::string rest = image + kImageMagic.size();
  const size_t line = rest.find('\n');
  const std::string own = "sm_" + std::to_string(state().device.capability);
  const bool runs = rest.substr(0, line) == own || rest.substr(0, line) == own + "a";
  if (!runs) return kNoBinary;
  auto module = simt::Module::compile(rest.substr(line + 1), "emulated.cu");
  if (!module.ok()) {
    std::fprintf(stderr, "%s\n", module.error().message.c_str());
    return kInvalidValue;
  }
  *library = new Library{*module, {}};
  return 0;
}
int cuLibraryUnload(void* library) {
  delete static_cast<Library*>(library);
  return 0;
}
int cuLibraryGetKernel(void** kernel, void* handle, const char* name) {
  auto& library = *static_cast<Library*>(handle);
  const auto found = library.module->kernel(name);
  if (!found.ok()) return kNotFound;
  auto& slot = library.kernels[name];
  slot = std::make_unique<Kernel>(Kernel{library.module, name, found->arity});
  *kernel = slot.get();
  return 0;
}
int cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return 0;
}
int cuFuncGetAttribute(int* value, int attribute, void*) {
  constexpr int kRegisters = 4;
  *value = attribute == kRegisters ? 32 : 1024;
  return 0;
}
int cuFuncSetAttribute(void*, int, int) { return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads, size_t shared) {
  *blocks = blocks_per_sm(threads, shared);
  return 0;
}

int cuLaunchKernelEx(const CudaLaunchConfig* config, void* function, void** arguments, void**) {
  const auto& kernel = *static_cast<Kernel*>(function);
  simt::LaunchShape shape;
  for (size_t i = 0; i < 3; ++i) shape.grid[i] = config->grid[i];
  shape.threads = config->block[0];
  shape.shared_bytes = config->shared_bytes;
  for (unsigned int i = 0; i < config->attribute_count; ++i) {
    const CudaLaunchAttribute& attribute = config->attributes[i];
    if (attribute.id == CudaLaunchAttribute::kCooperative) shape.cooperative = true;
    if (attribute.id == CudaLaunchAttribute::kClusterDimension) {
      shape.cluster = attribute.value.cluster[0];
    }
  }
  const int resident =
      blocks_per_sm(static_cast<int>(shape.threads), shape.shared_bytes) * state().device.sms;
  if (shape.cooperative && static_cast<int64_t>(shape.grid[0]) > resident) return kTooManyBlocks;
  std::vector<unsigned long long> values;
  for (uint32_t i = 0; i < kernel.arity; ++i) {
    values.push_back(*static_cast<const unsigned long long*>(arguments[i]));
  }
  return submit(config->stream, [&kernel, shape, values] { return run(kernel, shape, values); });
}

int cuStreamCreate(void** stream, unsigned int) {
  *stream = new Stream;
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  delete static_cast<Stream*>(stream);
  return 0;
}
int cuStreamSynchronize(void*) { return 0; }
int cuStreamBeginCapture_v2(void* stream, int) {
  static_cast<Stream*>(stream)->capture = std::make_unique<Graph>();
  return 0;
}
int cuStreamEndCapture(void* stream, void** graph) {
  *graph = static_cast<Stream*>(stream)->capture.release();
  return 0;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = new Graph(*static_cast<Graph*>(graph));
  return 0;
}
int cuGraphLaunch(void* executable, void*) {
  if (const char* file = std::getenv("WEFT_EMULATED_GRAPHS"); file != nullptr)
    std::ofstream(file, std::ios::app)
        << static_cast<Graph*>(executable)->operations.size() << '\n';
  for (const Operation& operation : static_cast<Graph*>(executable)->operations) {
    if (const int result = operation(); result != 0) return result;
  }
  return 0;
}
int cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return 0;
}
int cuGraphExecDestroy(void* graph) { return cuGraphDestroy(graph); }
int cuEventCreate(void** event, unsigned int) {
  *event = new int(0);
  return 0;
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<int*>(event);
  return 0;
}
int cuEventRecord(void*, void*) { return 0; }
int cuEventSynchronize(void*) { return 0; }
int cuEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 0.001f;
  return 0;
}

}  // extern "C"
