#include "runtime/cuda/cudnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "support/dynamic_library.h"

namespace weft {
namespace {

// Values of cudnn_graph.h and cudnn_ops.h.
constexpr int kFloat = 0, kHalf = 2, kBfloat16 = 9;
constexpr int kChannelsFirst = 0, kChannelsLast = 1;
constexpr int kCrossCorrelation = 1;
constexpr int kTensorOpMath = 1, kFmaMath = 3;
constexpr int kRelu = 1, kIdentity = 5, kPropagateNan = 1;
constexpr int kImplicitPrecompGemm = 1, kLastThatMultiplies = 3;  // implicit GEMMs, GEMM, direct
constexpr int kMostAlgorithms = 8;  // CUDNN_CONVOLUTION_FWD_ALGO_COUNT

/// As cudnnGetVersion counts: 9.0.0 and the first that may break with it.
constexpr size_t kOldestVersion = 90000, kFirstOfNext = 100000;
constexpr size_t kMostWorkspaceBytes = size_t{256} << 20;

int type_of(DType type) {
  switch (type) {
    case DType::kF16:
      return kHalf;
    case DType::kBF16:
      return kBfloat16;
    default:
      return kFloat;
  }
}

void bind(DynamicLibrary& library, CudnnFunctions& functions) {
#define WEFT_BIND(name) library.bind(functions.name, #name)
  WEFT_BIND(cudnnGetVersion);
  WEFT_BIND(cudnnGetErrorString);
  WEFT_BIND(cudnnCreate);
  WEFT_BIND(cudnnDestroy);
  WEFT_BIND(cudnnSetStream);
  WEFT_BIND(cudnnCreateTensorDescriptor);
  WEFT_BIND(cudnnDestroyTensorDescriptor);
  WEFT_BIND(cudnnSetTensorNdDescriptor);
  WEFT_BIND(cudnnCreateFilterDescriptor);
  WEFT_BIND(cudnnDestroyFilterDescriptor);
  WEFT_BIND(cudnnSetFilterNdDescriptor);
  WEFT_BIND(cudnnCreateConvolutionDescriptor);
  WEFT_BIND(cudnnDestroyConvolutionDescriptor);
  WEFT_BIND(cudnnSetConvolutionNdDescriptor);
  WEFT_BIND(cudnnSetConvolutionGroupCount);
  WEFT_BIND(cudnnSetConvolutionMathType);
  WEFT_BIND(cudnnCreateActivationDescriptor);
  WEFT_BIND(cudnnDestroyActivationDescriptor);
  WEFT_BIND(cudnnSetActivationDescriptor);
  WEFT_BIND(cudnnGetConvolutionForwardAlgorithm_v7);
  WEFT_BIND(cudnnConvolutionForward);
  WEFT_BIND(cudnnConvolutionBiasActivationForward);
#undef WEFT_BIND
}

Error missing(const std::string& message) { return {ErrorCode::kMissingDevice, message}; }

std::string version_text(size_t version) {
  const size_t major = version >= kOldestVersion ? 10000 : 1000;
  return fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100);
}

/// The axes of an image as the library takes them: at least two.
std::vector<ConvolutionCall::Axis> axes_of(const ConvolutionCall& call) {
  std::vector<ConvolutionCall::Axis> axes = call.axes;
  if (axes.size() == 1) axes.emplace_back();
  return axes;
}

using Ints = std::vector<int>;

/// Strides of a dense tensor whose extents are images, channels and then those of an image.
Ints strides_of(const Ints& extents, bool channels_last) {
  Ints strides(extents.size());
  int64_t next = channels_last ? extents[1] : 1;
  for (size_t d = extents.size(); d-- > 2;) {
    strides[d] = static_cast<int>(next);
    next *= extents[d];
  }
  strides[1] = channels_last ? 1 : static_cast<int>(next);
  strides[0] = static_cast<int>(channels_last ? next : next * extents[1]);
  return strides;
}

}  // namespace

Result<std::shared_ptr<const Cudnn>> Cudnn::load(const std::string& path) {
  std::string file = path.empty() ? environment_variable("WEFT_CUDNN") : path;
  if (file.empty()) file = "libcudnn.so.9";
  DynamicLibrary library = DynamicLibrary::open(file);
  if (!library.is_open()) {
    return missing("the program calls cuDNN, which was not found (looked for " + file +
                   "): install it, or compile for a target that names no libraries");
  }
  CudnnFunctions functions = {};
  bind(library, functions);
  if (!library.lacking().empty()) {
    return missing(file + " has no function " + library.lacking() + "; cuDNN 9 is needed");
  }
  return from_functions(functions);
}

Result<std::shared_ptr<const Cudnn>> Cudnn::from_functions(const CudnnFunctions& functions) {
  const size_t version = functions.cudnnGetVersion();
  if (version < kOldestVersion || version >= kFirstOfNext) {
    return missing("the program calls cuDNN 9; the library found is " + version_text(version));
  }
  std::shared_ptr<Cudnn> library(new Cudnn);
  library->functions_ = functions;
  return std::shared_ptr<const Cudnn>(std::move(library));
}

Status Cudnn::check(int status, const std::string& what) const {
  if (status == 0) return {};
  // Thousands are a class: 1 not initialised, 2 wrong arguments, 3 not supported, 4 internal, of
  // which 4003 and 4004 are memory that ran out.
  const int kind = status / 1000;
  const bool lacking = kind == 1 || kind == 3 || status == 4003 || status == 4004;
  const char* text = functions_.cudnnGetErrorString(status);
  return Error{lacking ? ErrorCode::kMissingDevice : ErrorCode::kInternal,
               "cuDNN, " + what + ", says " +
                   (text == nullptr ? std::to_string(status) : std::string(text))};
}

Result<std::shared_ptr<const CudnnHandle>> CudnnHandle::create(
    std::shared_ptr<const Cudnn> library) {
  std::shared_ptr<CudnnHandle> made(new CudnnHandle);
  WEFT_RETURN_IF_ERROR(
      library->check(library->functions().cudnnCreate(&made->handle_), "starting"));
  made->library_ = std::move(library);
  return std::shared_ptr<const CudnnHandle>(std::move(made));
}

CudnnHandle::~CudnnHandle() {
  if (library_ != nullptr) library_->functions().cudnnDestroy(handle_);
}

Status CudnnConvolution::check(int status, const char* what) const {
  Status checked = handle_->library().check(status, what);
  if (checked.ok()) return checked;
  return Error{checked.error().code, "'" + name_ + "': " + checked.error().message};
}

Result<CudnnConvolution> CudnnConvolution::create(std::shared_ptr<const CudnnHandle> handle,
                                                  const ConvolutionCall& call,
                                                  const std::string& name) {
  CudnnConvolution made;
  made.handle_ = std::move(handle);
  made.call_ = call;
  made.name_ = name;
  WEFT_RETURN_IF_ERROR(made.describe());
  WEFT_RETURN_IF_ERROR(made.choose_algorithm());
  return made;
}

Status CudnnConvolution::describe() {
  const CudnnFunctions& f = functions();
  const int type = type_of(call_.type);
  const auto integer = [](int64_t v) { return static_cast<int>(v); };
  Ints x = {integer(call_.images), integer(call_.channels)};
  Ints w = {integer(call_.features), integer(call_.channels / call_.groups)};
  Ints y = {integer(call_.images), integer(call_.features)};
  Ints padding, strides, dilations;
  for (const ConvolutionCall::Axis& a : axes_of(call_)) {
    x.push_back(integer(a.input));
    w.push_back(integer(a.window));
    y.push_back(integer(output_extent(a)));
    padding.push_back(integer(a.padding));
    strides.push_back(integer(a.stride));
    dilations.push_back(integer(a.dilation));
  }
  Ints bias(x.size(), 1);
  bias[1] = integer(call_.features);
  const auto tensor = [&](void** handle, const Ints& extents) -> Status {
    WEFT_RETURN_IF_ERROR(check(f.cudnnCreateTensorDescriptor(handle), "describing a tensor"));
    const Ints of = strides_of(extents, call_.channels_last);
    return check(f.cudnnSetTensorNdDescriptor(*handle, type, integer(std::ssize(extents)),
                                              extents.data(), of.data()),
                 "describing a tensor");
  };
  WEFT_RETURN_IF_ERROR(tensor(&descriptors_.x, x));
  WEFT_RETURN_IF_ERROR(tensor(&descriptors_.y, y));
  WEFT_RETURN_IF_ERROR(tensor(&descriptors_.bias, bias));
  WEFT_RETURN_IF_ERROR(
      check(f.cudnnCreateFilterDescriptor(&descriptors_.w), "describing the weights"));
  const int format = call_.channels_last ? kChannelsLast : kChannelsFirst;
  WEFT_RETURN_IF_ERROR(check(
      f.cudnnSetFilterNdDescriptor(descriptors_.w, type, format, integer(std::ssize(w)), w.data()),
      "describing the weights"));

  const char* what = "describing the convolution";
  void** convolution = &descriptors_.convolution;
  WEFT_RETURN_IF_ERROR(check(f.cudnnCreateConvolutionDescriptor(convolution), what));
  WEFT_RETURN_IF_ERROR(check(f.cudnnSetConvolutionNdDescriptor(
                                 *convolution, integer(std::ssize(padding)), padding.data(),
                                 strides.data(), dilations.data(), kCrossCorrelation, kFloat),
                             what));
  WEFT_RETURN_IF_ERROR(
      check(f.cudnnSetConvolutionGroupCount(*convolution, integer(call_.groups)), what));
  const int math = call_.type == DType::kF32 ? kFmaMath : kTensorOpMath;
  WEFT_RETURN_IF_ERROR(check(f.cudnnSetConvolutionMathType(*convolution, math), what));

  what = "describing the activation";
  WEFT_RETURN_IF_ERROR(check(f.cudnnCreateActivationDescriptor(&descriptors_.activation), what));
  return check(
      f.cudnnSetActivationDescriptor(descriptors_.activation, call_.clamps ? kRelu : kIdentity,
                                     kPropagateNan, /*coefficient=*/0),
      what);
}

Status CudnnConvolution::choose_algorithm() {
  std::array<CudnnProposal, kMostAlgorithms> proposals = {};
  int found = 0;
  WEFT_RETURN_IF_ERROR(
      check(functions().cudnnGetConvolutionForwardAlgorithm_v7(
                handle_->get(), descriptors_.x, descriptors_.w, descriptors_.convolution,
                descriptors_.y, kMostAlgorithms, &found, proposals.data()),
            "choosing an algorithm"));
  // A bias that no clamp follows is one algorithm's.
  const bool one = call_.bias >= 0 && !call_.clamps;
  for (int i = 0; i < std::min(found, kMostAlgorithms); ++i) {
    const CudnnProposal& p = proposals[static_cast<size_t>(i)];
    const bool multiplies = p.algorithm >= 0 && p.algorithm <= kLastThatMultiplies;
    if (p.status != 0 || p.deterministic == 0 || !multiplies ||
        p.workspace_bytes > kMostWorkspaceBytes || (one && p.algorithm != kImplicitPrecompGemm)) {
      continue;
    }
    algorithm_ = p.algorithm;
    workspace_bytes_ = static_cast<int64_t>(p.workspace_bytes);
    return {};
  }
  return missing("'" + name_ + "': cuDNN has no algorithm for " + print(call_));
}

Status CudnnConvolution::run(CudaStream& stream, std::span<const CudaAddress> buffers,
                             CudaAddress workspace) {
  const CudnnFunctions& f = functions();
  const auto pointer = [](CudaAddress of) {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(of));
  };
  const auto at = [&](int32_t position) { return pointer(buffers[static_cast<size_t>(position)]); };
  const float one = 1, zero = 0;
  const Descriptors& d = descriptors_;
  const auto bytes = static_cast<size_t>(workspace_bytes_);
  return stream.enqueue(name_, [&](void* on) -> Status {
    WEFT_RETURN_IF_ERROR(check(f.cudnnSetStream(handle_->get(), on), "taking a stream"));
    if (call_.bias < 0) {
      return check(f.cudnnConvolutionForward(handle_->get(), &one, d.x, at(call_.x), d.w,
                                             at(call_.w), d.convolution, algorithm_,
                                             pointer(workspace), bytes, &zero, d.y, at(call_.y)),
                   "starting the convolution");
    }
    const bool adds = call_.residual >= 0;
    return check(f.cudnnConvolutionBiasActivationForward(
                     handle_->get(), &one, d.x, at(call_.x), d.w, at(call_.w), d.convolution,
                     algorithm_, pointer(workspace), bytes, adds ? &one : &zero, d.y,
                     at(adds ? call_.residual : call_.y), d.bias, at(call_.bias), d.activation, d.y,
                     at(call_.y)),
                 "starting the convolution");
  });
}

CudnnConvolution::CudnnConvolution(CudnnConvolution&& other) noexcept { *this = std::move(other); }

CudnnConvolution& CudnnConvolution::operator=(CudnnConvolution&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(name_, other.name_);
  std::swap(call_, other.call_);
  std::swap(descriptors_, other.descriptors_);
  std::swap(algorithm_, other.algorithm_);
  std::swap(workspace_bytes_, other.workspace_bytes_);
  return *this;
}

CudnnConvolution::~CudnnConvolution() {
  if (handle_ == nullptr) return;
  const CudnnFunctions& f = functions();
  const Descriptors& d = descriptors_;
  if (d.activation != nullptr) f.cudnnDestroyActivationDescriptor(d.activation);
  if (d.convolution != nullptr) f.cudnnDestroyConvolutionDescriptor(d.convolution);
  if (d.w != nullptr) f.cudnnDestroyFilterDescriptor(d.w);
  for (void* tensor : {d.x, d.y, d.bias}) {
    if (tensor != nullptr) f.cudnnDestroyTensorDescriptor(tensor);
  }
}

}  // namespace weft
