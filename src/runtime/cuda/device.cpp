#include "runtime/cuda/device.h"

#include <array>
#include <utility>

namespace weft {
namespace {

// CUdevice_attribute and CUfunction_attribute.
constexpr int kMultiprocessorCount = 16;
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;
constexpr int kCooperativeLaunch = 95;
constexpr int kMaxSharedBytesPerBlockOptin = 97;
constexpr int kFunctionMaxThreadsPerBlock = 0;
constexpr int kFunctionRegisters = 4;
constexpr int kFunctionMaxDynamicSharedBytes = 8;

/// What every kernel may use without asking.
constexpr int64_t kDefaultSharedBytes = 48 << 10;

}  // namespace

Result<std::shared_ptr<const CudaDevice>> CudaDevice::open(std::shared_ptr<const CudaDriver> driver,
                                                           int ordinal) {
  if (ordinal < 0 || ordinal >= driver->device_count()) {
    return Error{ErrorCode::kMissingDevice, "there is no CUDA device " + std::to_string(ordinal) +
                                                "; the driver finds " +
                                                std::to_string(driver->device_count())};
  }
  std::shared_ptr<CudaDevice> device(new CudaDevice);
  device->driver_ = std::move(driver);
  const CudaFunctions& cuda = device->functions();
  const CudaDriver& messages = device->driver();
  const std::string what = "opening CUDA device " + std::to_string(ordinal);
  WEFT_RETURN_IF_ERROR(messages.check(cuda.cuDeviceGet(&device->handle_, ordinal), what));
  const auto attribute = [&](int id, int32_t& value) {
    int number = 0;
    const Status status =
        messages.check(cuda.cuDeviceGetAttribute(&number, id, device->handle_), what);
    value = number;
    return status;
  };
  Properties& properties = device->properties_;
  std::array<char, 256> name = {};
  WEFT_RETURN_IF_ERROR(messages.check(
      cuda.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device->handle_), what));
  properties.name = name.data();
  int32_t cooperative = 0, shared_bytes = 0;
  WEFT_RETURN_IF_ERROR(attribute(kComputeCapabilityMajor, properties.major));
  WEFT_RETURN_IF_ERROR(attribute(kComputeCapabilityMinor, properties.minor));
  WEFT_RETURN_IF_ERROR(attribute(kMultiprocessorCount, properties.sm_count));
  WEFT_RETURN_IF_ERROR(attribute(kMaxSharedBytesPerBlockOptin, shared_bytes));
  WEFT_RETURN_IF_ERROR(attribute(kCooperativeLaunch, cooperative));
  properties.shared_bytes_per_block = shared_bytes;
  properties.cooperative = cooperative != 0;
  size_t memory = 0;
  WEFT_RETURN_IF_ERROR(messages.check(cuda.cuDeviceTotalMem(&memory, device->handle_), what));
  properties.memory_bytes = static_cast<int64_t>(memory);
  WEFT_RETURN_IF_ERROR(
      messages.check(cuda.cuDevicePrimaryCtxRetain(&device->context_, device->handle_), what));
  return std::shared_ptr<const CudaDevice>(std::move(device));
}

CudaDevice::~CudaDevice() {
  if (context_ != nullptr) functions().cuDevicePrimaryCtxRelease(handle_);
}

Status CudaDevice::enter() const {
  return driver_->check(functions().cuCtxSetCurrent(context_), "using " + properties_.name);
}

Result<CudaMemory> CudaMemory::allocate(std::shared_ptr<const CudaDevice> device, int64_t bytes) {
  CudaMemory memory;
  if (bytes == 0) return memory;
  WEFT_RETURN_IF_ERROR(device->enter());
  WEFT_RETURN_IF_ERROR(device->driver().check(
      device->functions().cuMemAlloc(&memory.address_, static_cast<size_t>(bytes)),
      "allocating " + std::to_string(bytes) + " bytes on " + device->properties().name));
  memory.bytes_ = bytes;
  memory.device_ = std::move(device);
  return memory;
}

CudaMemory::CudaMemory(CudaMemory&& other) noexcept { *this = std::move(other); }

CudaMemory& CudaMemory::operator=(CudaMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

CudaMemory::~CudaMemory() {
  if (address_ != 0 && device_->enter().ok()) device_->functions().cuMemFree(address_);
}

Result<std::shared_ptr<const CudaModule>> CudaModule::load(std::shared_ptr<const CudaDevice> device,
                                                           std::span<const std::byte> cubin,
                                                           const std::string& name) {
  WEFT_RETURN_IF_ERROR(device->enter());
  std::shared_ptr<CudaModule> module(new CudaModule);
  const int version = device->driver().version();
  WEFT_RETURN_IF_ERROR(device->driver().check(
      device->functions().cuLibraryLoadData(&module->library_, cubin.data(), nullptr, nullptr, 0,
                                            nullptr, nullptr, 0),
      "loading '" + name + "' on " + device->properties().name + " (" +
          device->properties().arch() + ", driver for CUDA " + std::to_string(version / 1000) +
          "." + std::to_string(version % 1000 / 10) + ")"));
  module->device_ = std::move(device);
  module->name_ = name;
  return std::shared_ptr<const CudaModule>(std::move(module));
}

CudaModule::~CudaModule() {
  if (library_ != nullptr && device_->enter().ok()) device_->functions().cuLibraryUnload(library_);
}

Result<LoadedCudaKernel> CudaModule::kernel(const std::string& name, int64_t shared_bytes) const {
  const int64_t most = device_->properties().shared_bytes_per_block;
  if (shared_bytes > most) {
    return Error{ErrorCode::kMissingDevice,
                 "kernel '" + name + "' needs " + std::to_string(shared_bytes) +
                     " bytes of shared memory; " + device_->properties().name + " has " +
                     std::to_string(most) + " for a block"};
  }
  WEFT_RETURN_IF_ERROR(device_->enter());
  const CudaFunctions& cuda = device_->functions();
  const std::string what = "preparing kernel '" + name + "'";
  void* handle = nullptr;
  LoadedCudaKernel kernel;
  kernel.name = name;
  if (cuda.cuLibraryGetKernel(&handle, library_, name.c_str()) != 0) {
    return invalid_input("'" + name_ + "' has no kernel '" + name + "'");
  }
  const CudaDriver& messages = device_->driver();
  WEFT_RETURN_IF_ERROR(messages.check(cuda.cuKernelGetFunction(&kernel.function, handle), what));
  if (shared_bytes > kDefaultSharedBytes) {
    WEFT_RETURN_IF_ERROR(
        messages.check(cuda.cuFuncSetAttribute(kernel.function, kFunctionMaxDynamicSharedBytes,
                                               static_cast<int>(shared_bytes)),
                       what));
  }
  WEFT_RETURN_IF_ERROR(messages.check(
      cuda.cuFuncGetAttribute(&kernel.registers, kFunctionRegisters, kernel.function), what));
  WEFT_RETURN_IF_ERROR(messages.check(
      cuda.cuFuncGetAttribute(&kernel.max_threads, kFunctionMaxThreadsPerBlock, kernel.function),
      what));
  return kernel;
}

Result<int64_t> CudaModule::resident_blocks(const LoadedCudaKernel& kernel, int threads,
                                            int64_t shared_bytes) const {
  WEFT_RETURN_IF_ERROR(device_->enter());
  int blocks = 0;
  WEFT_RETURN_IF_ERROR(device_->driver().check(
      device_->functions().cuOccupancyMaxActiveBlocksPerMultiprocessor(
          &blocks, kernel.function, threads, static_cast<size_t>(shared_bytes)),
      "asking for the occupancy of kernel '" + kernel.name + "'"));
  return int64_t{blocks} * device_->properties().sm_count;
}

}  // namespace weft
