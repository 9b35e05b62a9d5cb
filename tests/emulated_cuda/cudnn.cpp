// cuDNN's convolutions over the emulated device's memory, which is the host's. What real cuDNN
// refuses is refused: an identity behind a bias with any algorithm but one, images and weights that
// lie differently. WEFT_EMULATED_CUDNN is the version it calls itself, by default 9.19.0 (91900);
// WEFT_EMULATED_CUDNN_FAILS the status of choosing an algorithm.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulated_cuda/streams.h"

namespace {

constexpr int kBadParameter = 2000, kNotSupported = 3000;
constexpr int kHalf = 2, kBfloat16 = 9, kIdentity = 5;
constexpr int kImplicitGemm = 0, kImplicitPrecompGemm = 1, kWinograd = 6;
constexpr size_t kWorkspaceBytes = 512;

struct Descriptor {
  int type = 0, format = 0, groups = 1, math = 0, mode = 0;
  std::vector<int> extents, strides, padding, steps, dilations;
};

struct Handle {
  void* stream = nullptr;
};

struct Proposal {
  int algorithm, status;
  float milliseconds;
  size_t workspace_bytes;
  int deterministic, math_type, reserved[3];
};

int create(void** made) {
  *made = std::make_unique<Descriptor>().release();
  return 0;
}

int destroy(void* made) {
  const std::unique_ptr<Descriptor> owner(static_cast<Descriptor*>(made));
  return 0;
}

Descriptor& at(void* made) { return *static_cast<Descriptor*>(made); }

int number_in(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<int>(std::strtol(text, nullptr, 10));
}

float load(const void* base, int type, int64_t i) {
  if (type == kHalf) return static_cast<float>(static_cast<const _Float16*>(base)[i]);
  if (type != kBfloat16) return static_cast<const float*>(base)[i];
  const uint32_t bits = uint32_t{static_cast<const uint16_t*>(base)[i]} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void store(void* base, int type, int64_t i, float value) {
  if (type == kHalf) {
    static_cast<_Float16*>(base)[i] = static_cast<_Float16>(value);
  } else if (type == kBfloat16) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    static_cast<uint16_t*>(base)[i] = static_cast<uint16_t>(bits >> 16);
  } else {
    static_cast<float*>(base)[i] = value;
  }
}

bool channels_last(const Descriptor& tensor) {
  return tensor.strides[1] == 1 && tensor.extents[1] > 1;
}

struct Call {
  Descriptor x, w, convolution, y, bias;
  int activation = kIdentity;
  bool adds = false;
  const void* image = nullptr;
  const void* weights = nullptr;
  const void* residual = nullptr;
  const void* biases = nullptr;
  void* result = nullptr;

  /// Walks all positions of `extents` from the outermost dimension on.
  template <typename Visit>
  static void walk(const std::vector<int>& extents, std::vector<int>& position, size_t d,
                   const Visit& visit) {
    if (d == extents.size()) return visit();
    for (position[d] = 0; position[d] < extents[d]; ++position[d])
      walk(extents, position, d + 1, visit);
  }

  static int64_t place(const Descriptor& tensor, const std::vector<int>& position) {
    int64_t offset = 0;
    for (size_t d = 0; d < position.size(); ++d) offset += int64_t{position[d]} * tensor.strides[d];
    return offset;
  }

  float sum_at(const std::vector<int>& out) const {
    const int of_group = w.extents[1];
    const int group = out[1] / (w.extents[0] / convolution.groups);
    const std::vector<int> taps(w.extents.begin() + 1, w.extents.end());
    std::vector<int> tap(taps.size()), in(out.size()), weight(out.size());
    float sum = 0;
    walk(taps, tap, 0, [&] {
      in[0] = out[0];
      in[1] = group * of_group + tap[0];
      weight[0] = out[1];
      weight[1] = tap[0];
      for (size_t a = 2; a < in.size(); ++a) {
        in[a] = out[a] * convolution.steps[a - 2] + tap[a - 1] * convolution.dilations[a - 2] -
                convolution.padding[a - 2];
        weight[a] = tap[a - 1];
        if (in[a] < 0 || in[a] >= x.extents[a]) return;
      }
      sum += load(image, x.type, place(x, in)) * load(weights, w.type, place(w, weight));
    });
    return sum;
  }

  int run() const {
    std::vector<int> out(y.extents.size());
    walk(y.extents, out, 0, [&] {
      float sum = sum_at(out);
      const int64_t to = place(y, out);
      if (biases != nullptr) sum += load(biases, y.type, out[1]);
      if (adds) sum += load(residual, y.type, to);
      if (activation != kIdentity) sum = std::max(sum, 0.0F);
      store(result, y.type, to, sum);
    });
    return 0;
  }

  /// Whether the library takes the tensors, and the output has the extents that it has to have.
  int check() const {
    if (x.type != w.type || x.type != y.type) return kNotSupported;
    const bool last = w.format == 1;
    for (const Descriptor* tensor : {&x, &y})
      if (tensor->extents[1] > 1 && channels_last(*tensor) != last) return kNotSupported;
    if (x.extents[1] != w.extents[1] * convolution.groups || y.extents[1] != w.extents[0] ||
        y.extents[0] != x.extents[0])
      return kBadParameter;
    for (size_t a = 2; a < x.extents.size(); ++a) {
      const int reach = (w.extents[a] - 1) * convolution.dilations[a - 2] + 1;
      const int room = x.extents[a] + 2 * convolution.padding[a - 2] - reach;
      if (y.extents[a] != room / convolution.steps[a - 2] + 1) return kBadParameter;
    }
    return 0;
  }
};

}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

size_t cudnnGetVersion() { return static_cast<size_t>(number_in("WEFT_EMULATED_CUDNN", 91900)); }
const char* cudnnGetErrorString(int status) {
  return status >= kNotSupported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}
int cudnnCreate(void** handle) {
  *handle = std::make_unique<Handle>().release();
  return 0;
}
int cudnnDestroy(void* handle) {
  const std::unique_ptr<Handle> owner(static_cast<Handle*>(handle));
  return 0;
}
int cudnnSetStream(void* handle, void* stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return 0;
}
int cudnnCreateTensorDescriptor(void** made) { return create(made); }
int cudnnDestroyTensorDescriptor(void* made) { return destroy(made); }
int cudnnSetTensorNdDescriptor(void* made, int type, int rank, const int* extents,
                               const int* strides) {
  if (rank < 4 || rank > 8) return kBadParameter;
  at(made).type = type;
  at(made).extents.assign(extents, extents + rank);
  at(made).strides.assign(strides, strides + rank);
  return 0;
}
int cudnnCreateFilterDescriptor(void** made) { return create(made); }
int cudnnDestroyFilterDescriptor(void* made) { return destroy(made); }
int cudnnSetFilterNdDescriptor(void* made, int type, int format, int rank, const int* extents) {
  Descriptor& d = at(made);
  d.type = type;
  d.format = format;
  d.extents.assign(extents, extents + rank);
  d.strides.assign(static_cast<size_t>(rank), 1);
  int next = format == 1 ? extents[1] : 1;
  for (int i = rank; i-- > 2;) {
    d.strides[static_cast<size_t>(i)] = next;
    next *= extents[i];
  }
  d.strides[1] = format == 1 ? 1 : next;
  d.strides[0] = format == 1 ? next : next * extents[1];
  return 0;
}
int cudnnCreateConvolutionDescriptor(void** made) { return create(made); }
int cudnnDestroyConvolutionDescriptor(void* made) { return destroy(made); }
int cudnnSetConvolutionNdDescriptor(void* made, int axes, const int* padding, const int* steps,
                                    const int* dilations, int mode, int compute_type) {
  constexpr int kCrossCorrelation = 1, kFloat = 0;
  if (mode != kCrossCorrelation || compute_type != kFloat) return kNotSupported;
  at(made).padding.assign(padding, padding + axes);
  at(made).steps.assign(steps, steps + axes);
  at(made).dilations.assign(dilations, dilations + axes);
  return 0;
}
int cudnnSetConvolutionGroupCount(void* made, int groups) {
  at(made).groups = groups;
  return 0;
}
int cudnnSetConvolutionMathType(void* made, int math) {
  at(made).math = math;
  return 0;
}
int cudnnCreateActivationDescriptor(void** made) { return create(made); }
int cudnnDestroyActivationDescriptor(void* made) { return destroy(made); }
int cudnnSetActivationDescriptor(void* made, int mode, int, double) {
  at(made).mode = mode;
  return 0;
}
int cudnnGetConvolutionForwardAlgorithm_v7(void*, void* x, void* w, void* convolution, void* y,
                                           int wanted, int* found, void* results) {
  if (const int failed = number_in("WEFT_EMULATED_CUDNN_FAILS", 0); failed != 0) return failed;
  Call call;
  call.x = at(x);
  call.w = at(w);
  call.convolution = at(convolution);
  call.y = at(y);
  if (const int wrong = call.check(); wrong != 0) return wrong;
  // The best of real devices is often a transform.
  const Proposal all[] = {{kWinograd, 0, 1, 0, 1, 0, {}},
                          {kImplicitPrecompGemm, 0, 2, kWorkspaceBytes, 1, 0, {}},
                          {kImplicitGemm, 0, 3, 0, 1, 0, {}}};
  *found = std::min(wanted, 3);
  std::copy(all, all + *found, static_cast<Proposal*>(results));
  return 0;
}
int cudnnConvolutionForward(void* handle, const void*, void* x, const void* image, void* w,
                            const void* weights, void* convolution, int algorithm, void* workspace,
                            size_t workspace_bytes, const void*, void* y, void* result) {
  if (algorithm == kWinograd || (workspace_bytes > 0 && workspace == nullptr)) return kBadParameter;
  Call call;
  call.x = at(x);
  call.w = at(w);
  call.convolution = at(convolution);
  call.y = at(y);
  call.image = image;
  call.weights = weights;
  call.result = result;
  return weft::submit_to_stream(static_cast<Handle*>(handle)->stream,
                                [call] { return call.run(); });
}
int cudnnConvolutionBiasActivationForward(void* handle, const void*, void* x, const void* image,
                                          void* w, const void* weights, void* convolution,
                                          int algorithm, void* workspace, size_t workspace_bytes,
                                          const void* alpha2, void* z, const void* residual,
                                          void* bias, const void* biases, void* activation, void* y,
                                          void* result) {
  if (algorithm == kWinograd || (workspace_bytes > 0 && workspace == nullptr)) return kBadParameter;
  if (at(activation).mode == kIdentity && algorithm != kImplicitPrecompGemm) return kNotSupported;
  if (biases == nullptr || residual == nullptr) return kBadParameter;
  if (at(z).strides != at(y).strides || at(bias).extents[1] != at(y).extents[1])
    return kBadParameter;
  Call call;
  call.x = at(x);
  call.w = at(w);
  call.convolution = at(convolution);
  call.y = at(y);
  call.bias = at(bias);
  call.activation = at(activation).mode;
  call.adds = *static_cast<const float*>(alpha2) != 0;
  call.image = image;
  call.weights = weights;
  call.residual = residual;
  call.biases = biases;
  call.result = result;
  return weft::submit_to_stream(static_cast<Handle*>(handle)->stream,
                                [call] { return call.run(); });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
