#include "runtime/device_program.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "runtime/cuda/stream.h"

namespace weft {
namespace {

constexpr int64_t kConstantAlignment = 256;  ///< bytes, as cuMemAlloc gives

int64_t rounded(int64_t bytes) {
  return (bytes + kConstantAlignment - 1) / kConstantAlignment * kConstantAlignment;
}

Error missing(const std::string& message) { return {ErrorCode::kMissingDevice, message}; }

}  // namespace

bool arch_runs_on(const std::string& arch, const CudaDevice::Properties& device) {
  constexpr std::string_view kPrefix = "sm_";
  if (!arch.starts_with(kPrefix)) return false;
  int number = 0;
  const char* end = arch.data() + arch.size();
  const auto [rest, error] = std::from_chars(arch.data() + kPrefix.size(), end, number);
  if (error != std::errc()) return false;
  if (rest != end) return number == device.major * 10 + device.minor;
  return number / 10 == device.major && number % 10 <= device.minor;
}

Result<std::shared_ptr<const CudaDevice>> open_cuda_device() {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDriver> driver, CudaDriver::load());
  return CudaDevice::open(std::move(driver));
}

Result<std::shared_ptr<const DeviceProgram>> DeviceProgram::load(
    const Program& program, std::shared_ptr<const CudaDevice> device) {
  const CudaDevice::Properties& properties = device->properties();
  if (!arch_runs_on(program.arch, properties)) {
    return missing("'" + program.model + "' was compiled for " + program.target + " (" +
                   program.arch + "), whose code " + properties.name + " (" + properties.arch() +
                   ") does not run; compile the model for this device");
  }
  std::shared_ptr<DeviceProgram> loaded(new DeviceProgram);
  loaded->device_ = std::move(device);
  WEFT_RETURN_IF_ERROR(loaded->device_->enter());
  VendorLibraries libraries;
  for (const KernelImage& image : program.kernels) {
    WEFT_RETURN_IF_ERROR(loaded->load_kernel(image, libraries));
  }
  WEFT_RETURN_IF_ERROR(loaded->copy_constants(program.constants));
  return std::shared_ptr<const DeviceProgram>(std::move(loaded));
}

/// Whether a library does the kernel's work here. Where it cannot, a note says why, unless there is
/// nothing else.
Result<bool> DeviceProgram::use_library(const KernelImage& image, VendorLibraries& libraries) {
  calls_.emplace_back();
  if (image.device.library_call.empty()) return false;
  WEFT_ASSIGN_OR_RETURN(LibraryCall call, parse_library_call(image.device.library_call));
  auto routine = libraries.prepare(call, image.name);
  if (routine.ok()) {
    calls_.back() = std::move(call);
    kernels_.emplace_back().name = image.name;
    return true;
  }
  if (image.bytes.empty() || routine.error().code != ErrorCode::kMissingDevice)
    return routine.take_error();
  std::string note = routine.error().message + "; weft's own kernel serves";
  if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(std::move(note));
  return false;
}

Status DeviceProgram::load_kernel(const KernelImage& image, VendorLibraries& libraries) {
  WEFT_RETURN_IF_ERROR(verify_kernel_image(image));
  const DeviceLaunch& launch = image.device;
  WEFT_ASSIGN_OR_RETURN(const bool called, use_library(image, libraries));
  if (called) return {};
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const CudaModule> module,
                        CudaModule::load(device_, image.bytes, image.name));
  WEFT_ASSIGN_OR_RETURN(LoadedCudaKernel kernel, module->kernel(launch.entry, launch.shared_bytes));
  kernel.name = image.name;
  const std::string& name = device_->properties().name;
  if (launch.threads > kernel.max_threads) {
    return missing("kernel '" + image.name + "' runs in blocks of " +
                   std::to_string(launch.threads) + " threads, " + name + " holds " +
                   std::to_string(kernel.max_threads) + " with its registers");
  }
  if (launch.cooperative) {
    WEFT_ASSIGN_OR_RETURN(const int64_t resident,
                          module->resident_blocks(kernel, launch.threads, launch.shared_bytes));
    if (launch.blocks > resident) {
      return missing("kernel '" + image.name + "' has a barrier of its grid of " +
                     std::to_string(launch.blocks) + " blocks, " + name + " holds " +
                     std::to_string(resident) + " of them at once");
    }
  }
  modules_.push_back(std::move(module));
  kernels_.push_back(std::move(kernel));
  return {};
}

Status DeviceProgram::copy_constants(const std::vector<HostTensor>& constants) {
  int64_t bytes = 0;
  for (const HostTensor& constant : constants) bytes += rounded(constant.bytes());
  WEFT_ASSIGN_OR_RETURN(memory_, CudaMemory::allocate(device_, bytes));
  WEFT_ASSIGN_OR_RETURN(CudaStream stream, CudaStream::create(device_));
  CudaAddress at = memory_.address();
  for (const HostTensor& constant : constants) {
    WEFT_RETURN_IF_ERROR(
        stream.copy_to_device(at, {constant.raw(), static_cast<size_t>(constant.bytes())}));
    constants_.push_back(at);
    at += static_cast<CudaAddress>(rounded(constant.bytes()));
  }
  return stream.synchronize();
}

}  // namespace weft
