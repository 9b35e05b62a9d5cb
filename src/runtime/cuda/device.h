#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/cuda/driver.h"

namespace weft {

/// One GPU and its primary context. Every function makes that context current on the calling
/// thread, so a device may be used from any.
class CudaDevice {
 public:
  struct Properties {
    std::string name;
    int32_t major = 0, minor = 0;  ///< compute capability
    int32_t sm_count = 0;
    int64_t shared_bytes_per_block = 0;  ///< the most that a kernel may ask for
    int64_t memory_bytes = 0;
    bool cooperative = false;  ///< takes cooperative launches
    std::string arch() const { return "sm_" + std::to_string(major * 10 + minor); }
  };

  /// kMissingDevice when the driver has no device of this number.
  static Result<std::shared_ptr<const CudaDevice>> open(std::shared_ptr<const CudaDriver> driver,
                                                        int ordinal = 0);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const Properties& properties() const { return properties_; }
  const CudaDriver& driver() const { return *driver_; }
  const CudaFunctions& functions() const { return driver_->functions(); }
  /// Makes the device's context current on this thread.
  Status enter() const;

 private:
  CudaDevice() = default;
  std::shared_ptr<const CudaDriver> driver_;
  int handle_ = 0;
  void* context_ = nullptr;
  Properties properties_;
};

/// Global memory of a device; 256-byte aligned.
class CudaMemory {
 public:
  CudaMemory() = default;
  /// kMissingDevice when the device has not so much left. Zero bytes give a null address.
  static Result<CudaMemory> allocate(std::shared_ptr<const CudaDevice> device, int64_t bytes);
  CudaMemory(CudaMemory&& other) noexcept;
  CudaMemory& operator=(CudaMemory&& other) noexcept;
  ~CudaMemory();

  CudaAddress address() const { return address_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const CudaDevice> device_;
  CudaAddress address_ = 0;
  int64_t bytes_ = 0;
};

/// A kernel of a loaded module. Valid while the module lives.
struct LoadedCudaKernel {
  std::string name;
  void* function = nullptr;
  int32_t registers = 0;
  int32_t max_threads = 0;  ///< of a block
};

/// Code loaded from a cubin.
class CudaModule {
 public:
  /// kMissingDevice for code that this device or driver cannot take, naming both; `name` stands for
  /// the code in messages.
  static Result<std::shared_ptr<const CudaModule>> load(std::shared_ptr<const CudaDevice> device,
                                                        std::span<const std::byte> cubin,
                                                        const std::string& name);
  ~CudaModule();
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  /// Ready to be launched with up to `shared_bytes` of dynamic shared memory. kInvalidInput when
  /// the code has no such kernel, kMissingDevice when the device has not so much shared memory.
  Result<LoadedCudaKernel> kernel(const std::string& name, int64_t shared_bytes) const;

  /// Blocks of this size that the whole device holds at a time: what a cooperative launch may have.
  Result<int64_t> resident_blocks(const LoadedCudaKernel& kernel, int threads,
                                  int64_t shared_bytes) const;

 private:
  CudaModule() = default;
  std::shared_ptr<const CudaDevice> device_;
  std::string name_;
  void* library_ = nullptr;
};

}  // namespace weft
