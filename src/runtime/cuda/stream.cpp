#include "runtime/cuda/stream.h"

#include <utility>

namespace weft {
namespace {

constexpr unsigned int kNonBlocking = 1;  ///< CU_STREAM_NON_BLOCKING
/// Relaxed: libraries may load their code when they are first asked.
constexpr int kCaptureMode = 2;

/// Two events that go away with this value.
struct EventPair {
  const CudaFunctions& cuda;
  void* begin = nullptr;
  void* end = nullptr;
  explicit EventPair(const CudaFunctions& functions) : cuda(functions) {}
  EventPair(const EventPair&) = delete;
  EventPair& operator=(const EventPair&) = delete;
  ~EventPair() {
    if (begin != nullptr) cuda.cuEventDestroy(begin);
    if (end != nullptr) cuda.cuEventDestroy(end);
  }
};

}  // namespace

Result<CudaStream> CudaStream::create(std::shared_ptr<const CudaDevice> device) {
  WEFT_RETURN_IF_ERROR(device->enter());
  CudaStream stream;
  WEFT_RETURN_IF_ERROR(device->driver().check(
      device->functions().cuStreamCreate(&stream.handle_, kNonBlocking), "making a CUDA stream"));
  stream.device_ = std::move(device);
  return stream;
}

CudaStream::CudaStream(CudaStream&& other) noexcept { *this = std::move(other); }

CudaStream& CudaStream::operator=(CudaStream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  std::swap(last_, other.last_);
  return *this;
}

CudaStream::~CudaStream() {
  if (handle_ != nullptr && device_->enter().ok()) device_->functions().cuStreamDestroy(handle_);
}

Status CudaStream::copy_to_device(CudaAddress to, std::span<const std::byte> from) {
  if (from.empty()) return {};
  WEFT_RETURN_IF_ERROR(device_->enter());
  return device_->driver().check(
      device_->functions().cuMemcpyHtoDAsync(to, from.data(), from.size(), handle_),
      "copying " + std::to_string(from.size()) + " bytes to the device");
}

Status CudaStream::copy_to_host(std::span<std::byte> to, CudaAddress from) {
  if (to.empty()) return {};
  WEFT_RETURN_IF_ERROR(device_->enter());
  return device_->driver().check(
      device_->functions().cuMemcpyDtoHAsync(to.data(), from, to.size(), handle_),
      "copying " + std::to_string(to.size()) + " bytes from the device");
}

Status CudaStream::copy_on_device(CudaAddress to, CudaAddress from, int64_t bytes) {
  if (bytes == 0) return {};
  WEFT_RETURN_IF_ERROR(device_->enter());
  return device_->driver().check(
      device_->functions().cuMemcpyDtoDAsync(to, from, static_cast<size_t>(bytes), handle_),
      "copying " + std::to_string(bytes) + " bytes on the device");
}

Status CudaStream::fill_zero(CudaAddress to, int64_t bytes) {
  if (bytes == 0) return {};
  WEFT_RETURN_IF_ERROR(device_->enter());
  return device_->driver().check(
      device_->functions().cuMemsetD8Async(to, 0, static_cast<size_t>(bytes), handle_),
      "clearing " + std::to_string(bytes) + " bytes on the device");
}

Status CudaStream::launch(const LoadedCudaKernel& kernel, const CudaLaunchShape& shape,
                          std::span<void* const> arguments) {
  if (shape.cooperative && !device_->properties().cooperative) {
    return Error{ErrorCode::kMissingDevice, "kernel '" + kernel.name +
                                                "' needs a cooperative launch, which " +
                                                device_->properties().name + " does not take"};
  }
  WEFT_RETURN_IF_ERROR(device_->enter());
  std::array<CudaLaunchAttribute, 2> attributes;
  CudaLaunchConfig config;
  for (size_t i = 0; i < 3; ++i) config.grid[i] = shape.grid[i];
  config.block[0] = shape.threads;
  config.shared_bytes = static_cast<unsigned int>(shape.shared_bytes);
  config.stream = handle_;
  config.attributes = attributes.data();
  if (shape.cooperative) {
    CudaLaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = CudaLaunchAttribute::kCooperative;
    attribute.value.cooperative = 1;
  }
  if (shape.cluster > 1) {
    CudaLaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = CudaLaunchAttribute::kClusterDimension;
    attribute.value.cluster[0] = shape.cluster;
    attribute.value.cluster[1] = attribute.value.cluster[2] = 1;
  }
  std::vector<void*> pointers(arguments.begin(), arguments.end());
  last_ = "kernel '" + kernel.name + "'";
  return device_->driver().check(
      device_->functions().cuLaunchKernelEx(&config, kernel.function, pointers.data(), nullptr),
      "starting " + last_);
}

Status CudaStream::enqueue(const std::string& what, const std::function<Status(void*)>& start) {
  WEFT_RETURN_IF_ERROR(device_->enter());
  last_ = "kernel '" + what + "'";
  return start(handle_);
}

Result<CudaGraph> CudaStream::capture(const std::function<Status(CudaStream&)>& work) {
  WEFT_RETURN_IF_ERROR(device_->enter());
  const CudaFunctions& cuda = device_->functions();
  const CudaDriver& messages = device_->driver();
  WEFT_RETURN_IF_ERROR(
      messages.check(cuda.cuStreamBeginCapture(handle_, kCaptureMode), "capturing a CUDA graph"));
  Status status = work(*this);
  // A capture is ended whatever became of it, or the stream stays unusable.
  void* graph = nullptr;
  const int ended = cuda.cuStreamEndCapture(handle_, &graph);
  CudaGraph captured;
  if (status.ok()) status = messages.check(ended, "capturing a CUDA graph");
  if (status.ok()) {
    status = messages.check(cuda.cuGraphInstantiate(&captured.executable_, graph, 0),
                            "making a CUDA graph runnable");
  }
  if (graph != nullptr) cuda.cuGraphDestroy(graph);
  if (!status.ok()) return status.take_error();
  captured.device_ = device_;
  return captured;
}

Status CudaStream::launch(const CudaGraph& graph) {
  WEFT_RETURN_IF_ERROR(device_->enter());
  last_ = "a CUDA graph";
  return device_->driver().check(device_->functions().cuGraphLaunch(graph.executable_, handle_),
                                 "starting a CUDA graph");
}

Status CudaStream::synchronize() {
  WEFT_RETURN_IF_ERROR(device_->enter());
  return device_->driver().check(device_->functions().cuStreamSynchronize(handle_),
                                 last_.empty() ? "waiting for the device" : "running " + last_);
}

Result<double> CudaStream::time_us(const std::function<Status(CudaStream&)>& work) {
  WEFT_RETURN_IF_ERROR(device_->enter());
  const CudaFunctions& cuda = device_->functions();
  const CudaDriver& messages = device_->driver();
  const std::string what = "timing on the device";
  EventPair events(cuda);
  WEFT_RETURN_IF_ERROR(messages.check(cuda.cuEventCreate(&events.begin, 0), what));
  WEFT_RETURN_IF_ERROR(messages.check(cuda.cuEventCreate(&events.end, 0), what));
  WEFT_RETURN_IF_ERROR(messages.check(cuda.cuEventRecord(events.begin, handle_), what));
  WEFT_RETURN_IF_ERROR(work(*this));
  WEFT_RETURN_IF_ERROR(messages.check(cuda.cuEventRecord(events.end, handle_), what));
  WEFT_RETURN_IF_ERROR(synchronize());
  float milliseconds = 0;
  WEFT_RETURN_IF_ERROR(
      messages.check(cuda.cuEventElapsedTime(&milliseconds, events.begin, events.end), what));
  return double{milliseconds} * 1e3;
}

CudaGraph::CudaGraph(CudaGraph&& other) noexcept { *this = std::move(other); }

CudaGraph& CudaGraph::operator=(CudaGraph&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(executable_, other.executable_);
  return *this;
}

CudaGraph::~CudaGraph() {
  if (executable_ != nullptr && device_->enter().ok()) {
    device_->functions().cuGraphExecDestroy(executable_);
  }
}

}  // namespace weft
