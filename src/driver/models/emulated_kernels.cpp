#include "driver/models/emulated_kernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "simt/launch.h"
#include "simt/module.h"

namespace weft {

namespace {

/// Of a sector: a device's allocations are aligned further.
constexpr size_t kDeviceAlignment = 32;

struct EmulatedKernel {
  std::shared_ptr<const simt::Module> module;
  CudaKernel code;
  std::vector<KernelBuffer> buffers;  ///< without shared ones
};

class Emulation : public KernelLauncher {
 public:
  Emulation(std::vector<EmulatedKernel> kernels, EmulationOptions options)
      : kernels_(std::move(kernels)), options_(std::move(options)) {}

  Status launch(int32_t number, std::span<void* const> addresses,
                std::span<const int64_t> arguments) override {
    const EmulatedKernel& kernel = kernels_[static_cast<size_t>(number)];
    // Host tensors may lie where device memory never does.
    std::vector<std::vector<std::byte>> aligned(kernel.buffers.size());
    std::vector<simt::Buffer> buffers;
    std::vector<simt::Argument> values;
    for (size_t b = 0; b < kernel.buffers.size(); ++b) {
      const KernelBuffer& info = kernel.buffers[b];
      simt::Buffer buffer;
      buffer.name = info.name;
      buffer.bytes = static_cast<size_t>(info.elements * byte_size(info.dtype));
      buffer.data = device_address(static_cast<std::byte*>(addresses[b]), buffer.bytes, aligned[b]);
      buffer.use = use_of(info.kind);
      values.emplace_back(buffer.data);
      buffers.push_back(std::move(buffer));
    }
    for (const int64_t a : arguments) values.emplace_back(a);
    uint32_t barrier = 0;
    if (kernel.code.grid_barrier) {
      buffers.push_back({"barrier", reinterpret_cast<std::byte*>(&barrier), sizeof barrier,
                         simt::Buffer::Use::kReadWrite});
      values.emplace_back(&barrier);
    }
    simt::LaunchShape shape;
    shape.grid = {static_cast<uint32_t>(kernel.code.blocks), 1, 1};
    shape.threads = static_cast<uint32_t>(kernel.code.threads);
    shape.cluster = static_cast<uint32_t>(kernel.code.cluster);
    shape.cooperative = kernel.code.grid_barrier;
    shape.shared_bytes = static_cast<size_t>(kernel.code.shared_bytes);
    simt::LaunchOptions how;
    how.traffic = static_cast<bool>(options_.observe);
    WEFT_ASSIGN_OR_RETURN(
        const simt::Report report,
        emulator_.launch(*kernel.module, kernel.code.name, shape, buffers, values, how));
    if (options_.observe) options_.observe(kernel.code, report);
    if (!report.clean()) {
      return Error{ErrorCode::kInternal, kernel.code.name + ": " + print(report)};
    }
    for (size_t b = 0; b < aligned.size(); ++b) {
      if (aligned[b].empty() || buffers[b].use == simt::Buffer::Use::kRead) continue;
      std::memcpy(addresses[b], buffers[b].data, buffers[b].bytes);
    }
    return {};
  }

 private:
  /// The address itself, or that of an aligned copy in `copy`.
  static std::byte* device_address(std::byte* host, size_t bytes, std::vector<std::byte>& copy) {
    if (reinterpret_cast<uintptr_t>(host) % kDeviceAlignment == 0 || bytes == 0) return host;
    copy.resize(bytes + kDeviceAlignment);
    const size_t off = reinterpret_cast<uintptr_t>(copy.data()) % kDeviceAlignment;
    std::byte* to = copy.data() + (off == 0 ? 0 : kDeviceAlignment - off);
    std::memcpy(to, host, bytes);
    return to;
  }

  static simt::Buffer::Use use_of(KernelBuffer::Kind kind) {
    switch (kind) {
      case KernelBuffer::Kind::kInput:
        return simt::Buffer::Use::kRead;
      case KernelBuffer::Kind::kOutput:
        return simt::Buffer::Use::kWrite;
      default:
        return simt::Buffer::Use::kScratch;
    }
  }

  std::vector<EmulatedKernel> kernels_;
  EmulationOptions options_;
  simt::Emulator emulator_;
};

}  // namespace

Result<std::shared_ptr<KernelLauncher>> emulate_kernels(
    const std::vector<const KernelFunction*>& kernels, const std::string& cache_directory,
    const EmulationOptions& options) {
  simt::CompileOptions build;
  if (!cache_directory.empty()) build.cache_directory = cache_directory + "/simt";
  std::vector<EmulatedKernel> list(kernels.size());
  std::vector<Status> compiled(kernels.size());
  std::atomic<size_t> next{0};
  const auto compile = [&] {
    for (size_t k = next++; k < kernels.size(); k = next++) {
      list[k].code = emit_cuda(*kernels[k]);
      auto module = simt::Module::compile(list[k].code.text, list[k].code.name + ".cu", build);
      if (module.ok()) {
        list[k].module = std::move(*module);
      } else {
        compiled[k] = module.error();
      }
      for (const KernelBuffer& b : kernels[k]->buffers) {
        if (b.kind != KernelBuffer::Kind::kShared) list[k].buffers.push_back(b);
      }
    }
  };
  // Each waits for a compiler of its own.
  std::vector<std::thread> threads;
  const size_t most = std::min<size_t>(std::thread::hardware_concurrency(), kernels.size());
  while (threads.size() + 1 < most) threads.emplace_back(compile);
  compile();
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : compiled) WEFT_RETURN_IF_ERROR(status);
  return std::shared_ptr<KernelLauncher>(std::make_shared<Emulation>(std::move(list), options));
}

}  // namespace weft
