#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/cuda/library_routine.h"
#include "support/result.h"
#include "target/convolution_call.h"

namespace weft {

/// The functions of cudnn.h that are used, under their own names; each returns a cudnnStatus_t, 0
/// for success, unless it says otherwise. Handles and descriptors are opaque.
struct CudnnFunctions {
  // NOLINTBEGIN(readability-identifier-naming)
  size_t (*cudnnGetVersion)();
  const char* (*cudnnGetErrorString)(int);
  int (*cudnnCreate)(void**);
  int (*cudnnDestroy)(void*);
  int (*cudnnSetStream)(void*, void* stream);
  int (*cudnnCreateTensorDescriptor)(void**);
  int (*cudnnDestroyTensorDescriptor)(void*);
  int (*cudnnSetTensorNdDescriptor)(void*, int type, int rank, const int* extents,
                                    const int* strides);
  int (*cudnnCreateFilterDescriptor)(void**);
  int (*cudnnDestroyFilterDescriptor)(void*);
  int (*cudnnSetFilterNdDescriptor)(void*, int type, int format, int rank, const int* extents);
  int (*cudnnCreateConvolutionDescriptor)(void**);
  int (*cudnnDestroyConvolutionDescriptor)(void*);
  int (*cudnnSetConvolutionNdDescriptor)(void*, int axes, const int* padding, const int* strides,
                                         const int* dilations, int mode, int compute_type);
  int (*cudnnSetConvolutionGroupCount)(void*, int);
  int (*cudnnSetConvolutionMathType)(void*, int);
  int (*cudnnCreateActivationDescriptor)(void**);
  int (*cudnnDestroyActivationDescriptor)(void*);
  int (*cudnnSetActivationDescriptor)(void*, int mode, int nan, double coefficient);
  int (*cudnnGetConvolutionForwardAlgorithm_v7)(void*, void* x, void* w, void* convolution, void* y,
                                                int wanted, int* found, void* results);
  int (*cudnnConvolutionForward)(void*, const void* alpha, void* x_layout, const void* x,
                                 void* w_layout, const void* w, void* convolution, int algorithm,
                                 void* workspace, size_t workspace_bytes, const void* beta,
                                 void* y_layout, void* y);
  int (*cudnnConvolutionBiasActivationForward)(void*, const void* alpha1, void* x_layout,
                                               const void* x, void* w_layout, const void* w,
                                               void* convolution, int algorithm, void* workspace,
                                               size_t workspace_bytes, const void* alpha2,
                                               void* z_layout, const void* z, void* bias_layout,
                                               const void* bias, void* activation, void* y_layout,
                                               void* y);
  // NOLINTEND(readability-identifier-naming)
};

/// What cudnnGetConvolutionForwardAlgorithm_v7 writes: cudnnConvolutionFwdAlgoPerf_t.
struct CudnnProposal {
  int algorithm;
  int status;
  float milliseconds;
  size_t workspace_bytes;
  int deterministic;
  int math_type;
  int reserved[3];
};

/// cuDNN 9, loaded. Stays loaded until the process ends.
class Cudnn {
 public:
  /// Looks for the library: `path` if given, else $WEFT_CUDNN, else libcudnn.so.9 in the loader's
  /// folders. kMissingDevice says what was looked for, or which version was found.
  static Result<std::shared_ptr<const Cudnn>> load(const std::string& path = {});
  static Result<std::shared_ptr<const Cudnn>> from_functions(const CudnnFunctions& functions);

  const CudnnFunctions& functions() const { return functions_; }
  /// Success, or an error about `what`: kMissingDevice for what the machine or the library lacks,
  /// else kInternal.
  Status check(int status, const std::string& what) const;

 private:
  Cudnn() = default;
  CudnnFunctions functions_ = {};
};

/// The library on the device that is current where it is made. For one thread at a time.
class CudnnHandle {
 public:
  static Result<std::shared_ptr<const CudnnHandle>> create(std::shared_ptr<const Cudnn> library);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  const Cudnn& library() const { return *library_; }
  void* get() const { return handle_; }

 private:
  CudnnHandle() = default;
  std::shared_ptr<const Cudnn> library_;
  void* handle_ = nullptr;
};

/// A convolution that cuDNN was asked for, with the first algorithm that it proposes of those which
/// add up the products themselves, in an order that is the same each time: transforms (Winograd's,
/// Fourier's) round elsewhere. Products sum up in float32 and float32 operands are not rounded.
class CudnnConvolution final : public LibraryRoutine {
 public:
  /// kMissingDevice when the library has no such algorithm for this convolution on its device.
  static Result<CudnnConvolution> create(std::shared_ptr<const CudnnHandle> handle,
                                         const ConvolutionCall& call, const std::string& name);
  CudnnConvolution(CudnnConvolution&& other) noexcept;
  CudnnConvolution& operator=(CudnnConvolution&& other) noexcept;
  ~CudnnConvolution() override;

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  Status run(CudaStream& stream, std::span<const CudaAddress> buffers,
             CudaAddress workspace) override;

 private:
  CudnnConvolution() = default;
  Status describe();
  Status choose_algorithm();
  Status check(int status, const char* what) const;
  const CudnnFunctions& functions() const { return handle_->library().functions(); }

  struct Descriptors {
    void* x = nullptr;
    void* w = nullptr;
    void* y = nullptr;
    void* bias = nullptr;
    void* convolution = nullptr;
    void* activation = nullptr;
  };
  std::shared_ptr<const CudnnHandle> handle_;
  std::string name_;
  ConvolutionCall call_;
  Descriptors descriptors_;
  int algorithm_ = 0;
  int64_t workspace_bytes_ = 0;
};

}  // namespace weft
