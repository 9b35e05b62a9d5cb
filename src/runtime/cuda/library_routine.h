#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/cuda/stream.h"
#include "support/result.h"
#include "target/library_call.h"

namespace weft {

/// A library call made ready on a device: started any number of times, on one stream at a time.
class LibraryRoutine {
 public:
  virtual ~LibraryRoutine() = default;

  /// Bytes of device memory that it may use for its own ends while it runs.
  virtual int64_t workspace_bytes() const = 0;
  /// Starts it on the stream. `buffers` are the addresses of the kernel's buffers, by position;
  /// `workspace` has workspace_bytes() bytes.
  virtual Status run(CudaStream& stream, std::span<const CudaAddress> buffers,
                     CudaAddress workspace) = 0;
};

class Cublas;
class CudnnHandle;

/// The vendors' libraries of one run, each loaded when it is asked for first.
class VendorLibraries {
 public:
  /// Makes the call ready on the current device. `name` stands for it in messages. kMissingDevice
  /// when the library is not there, or cannot do it on this device.
  Result<std::unique_ptr<LibraryRoutine>> prepare(const LibraryCall& call, const std::string& name);

 private:
  std::shared_ptr<const Cublas> cublas_;
  std::shared_ptr<const CudnnHandle> cudnn_;
};

}  // namespace weft
