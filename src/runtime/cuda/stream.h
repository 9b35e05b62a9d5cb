#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/device.h"

namespace weft {

struct CudaLaunchShape {
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t threads = 32;     ///< of a block
  uint32_t cluster = 1;      ///< blocks of a cluster, along x
  bool cooperative = false;  ///< the kernel has a grid barrier
  int64_t shared_bytes = 0;  ///< dynamic
};

class CudaGraph;

/// Work of one device in order. Not for two threads at a time. Errors of the work itself show at
/// synchronize(), which names the kernel that was started last.
class CudaStream {
 public:
  static Result<CudaStream> create(std::shared_ptr<const CudaDevice> device);
  CudaStream(CudaStream&& other) noexcept;
  CudaStream& operator=(CudaStream&& other) noexcept;
  ~CudaStream();

  /// Host memory must live and, when read, stay as it is until the copy is over.
  Status copy_to_device(CudaAddress to, std::span<const std::byte> from);
  Status copy_to_host(std::span<std::byte> to, CudaAddress from);
  Status copy_on_device(CudaAddress to, CudaAddress from, int64_t bytes);
  Status fill_zero(CudaAddress to, int64_t bytes);

  /// Starts a kernel; `arguments` point to its parameters, in order, and are read before this
  /// returns. kMissingDevice for a launch that the device cannot take (a cooperative one on a
  /// device that has none); kInternal names the kernel.
  Status launch(const LoadedCudaKernel& kernel, const CudaLaunchShape& shape,
                std::span<void* const> arguments);

  /// Lets a library of the vendor start work of its own: `start` gets the stream's handle
  /// (CUstream). `what` stands for it in messages.
  Status enqueue(const std::string& what, const std::function<Status(void*)>& start);

  /// Records what `work` asks of this stream, without running it, as a graph that runs it all with
  /// one call. Modules and memory must have been loaded before.
  Result<CudaGraph> capture(const std::function<Status(CudaStream&)>& work);
  Status launch(const CudaGraph& graph);

  Status synchronize();
  /// Microseconds that the device spends on `work`, which is waited for.
  Result<double> time_us(const std::function<Status(CudaStream&)>& work);

 private:
  CudaStream() = default;
  std::shared_ptr<const CudaDevice> device_;
  void* handle_ = nullptr;
  std::string last_;  ///< what synchronize() blames
};

/// A captured run.
class CudaGraph {
 public:
  CudaGraph(CudaGraph&& other) noexcept;
  CudaGraph& operator=(CudaGraph&& other) noexcept;
  ~CudaGraph();

 private:
  friend class CudaStream;
  CudaGraph() = default;
  std::shared_ptr<const CudaDevice> device_;
  void* executable_ = nullptr;
};

}  // namespace weft
