#include "runtime/cuda/cudnn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fake_driver.h"

namespace weft {
namespace {

/// A library that writes down what it is asked, and proposes what a test says.
struct FakeCudnn {
  struct Asked {
    std::vector<int> extents, strides, padding, steps, dilations;
    int type = -1, format = -1, groups = 0, math = -1, mode = -1;
  };
  static FakeCudnn& now() {
    static FakeCudnn fake;
    return fake;
  }
  std::vector<Asked> tensors;  ///< x, y, bias
  Asked filter, convolution;
  std::vector<CudnnProposal> proposals;
  size_t version = 91900;
  int alive = 0, started = -1;
  bool clamps = false;
  float alpha2 = -1;
  const void* residual = nullptr;
  const void* biases = nullptr;
  void* stream = nullptr;

  static int create(void** made) {
    *made = new int(0);
    ++now().alive;
    return 0;
  }
  static int destroy(void* made) {
    delete static_cast<int*>(made);
    --now().alive;
    return 0;
  }

  static CudnnFunctions functions() {
    CudnnFunctions f = {};
    f.cudnnGetVersion = [] { return now().version; };
    f.cudnnGetErrorString = [](int) { return "CUDNN_STATUS_OF_TESTS"; };
    f.cudnnCreate = create;
    f.cudnnDestroy = destroy;
    f.cudnnSetStream = [](void*, void* stream) {
      now().stream = stream;
      return 0;
    };
    f.cudnnCreateTensorDescriptor = create;
    f.cudnnDestroyTensorDescriptor = destroy;
    f.cudnnSetTensorNdDescriptor = [](void*, int type, int rank, const int* extents,
                                      const int* strides) {
      Asked& asked = now().tensors.emplace_back();
      asked.type = type;
      asked.extents.assign(extents, extents + rank);
      asked.strides.assign(strides, strides + rank);
      return 0;
    };
    f.cudnnCreateFilterDescriptor = create;
    f.cudnnDestroyFilterDescriptor = destroy;
    f.cudnnSetFilterNdDescriptor = [](void*, int type, int format, int rank, const int* extents) {
      now().filter.type = type;
      now().filter.format = format;
      now().filter.extents.assign(extents, extents + rank);
      return 0;
    };
    f.cudnnCreateConvolutionDescriptor = create;
    f.cudnnDestroyConvolutionDescriptor = destroy;
    f.cudnnSetConvolutionNdDescriptor = [](void*, int axes, const int* padding, const int* steps,
                                           const int* dilations, int mode, int compute) {
      EXPECT_EQ(mode, 1);     // CUDNN_CROSS_CORRELATION
      EXPECT_EQ(compute, 0);  // CUDNN_DATA_FLOAT
      now().convolution.padding.assign(padding, padding + axes);
      now().convolution.steps.assign(steps, steps + axes);
      now().convolution.dilations.assign(dilations, dilations + axes);
      return 0;
    };
    f.cudnnSetConvolutionGroupCount = [](void*, int groups) {
      now().convolution.groups = groups;
      return 0;
    };
    f.cudnnSetConvolutionMathType = [](void*, int math) {
      now().convolution.math = math;
      return 0;
    };
    f.cudnnCreateActivationDescriptor = create;
    f.cudnnDestroyActivationDescriptor = destroy;
    f.cudnnSetActivationDescriptor = [](void*, int mode, int, double) {
      now().clamps = mode == 1;  // CUDNN_ACTIVATION_RELU
      return 0;
    };
    f.cudnnGetConvolutionForwardAlgorithm_v7 = [](void*, void*, void*, void*, void*, int wanted,
                                                  int* found, void* results) {
      const auto& all = now().proposals;
      *found = std::min(wanted, static_cast<int>(all.size()));
      std::copy_n(all.begin(), *found, static_cast<CudnnProposal*>(results));
      return 0;
    };
    f.cudnnConvolutionForward = [](void*, const void*, void*, const void*, void*, const void*,
                                   void*, int algorithm, void*, size_t, const void*, void*, void*) {
      now().started = algorithm;
      return 0;
    };
    f.cudnnConvolutionBiasActivationForward = [](void*, const void*, void*, const void*, void*,
                                                 const void*, void*, int algorithm, void*, size_t,
                                                 const void* alpha2, void*, const void* residual,
                                                 void*, const void* biases, void*, void*, void*) {
      now().started = algorithm;
      now().alpha2 = *static_cast<const float*>(alpha2);
      now().residual = residual;
      now().biases = biases;
      return 0;
    };
    return f;
  }
};

CudnnProposal proposal(int algorithm, int status = 0, size_t workspace = 0, int deterministic = 1) {
  CudnnProposal p = {};
  p.algorithm = algorithm;
  p.status = status;
  p.workspace_bytes = workspace;
  p.deterministic = deterministic;
  return p;
}

ConvolutionCall dense() {
  ConvolutionCall c;
  c.type = DType::kF16;
  c.channels_last = true;
  c.images = 2;
  c.channels = 8;
  c.features = 6;
  c.groups = 2;
  c.axes = {{.input = 9, .window = 3, .stride = 2, .padding = 1},
            {.input = 11, .window = 5, .dilation = 2, .padding = 4}};
  c.y = 4;
  c.bias = 2;
  c.residual = 3;
  c.clamps = true;
  return c;
}

class CudnnTest : public testing::Test {
 protected:
  void SetUp() override {
    FakeCudnn::now() = {};
    FakeCudnn::now().proposals = {proposal(0)};
    auto driver = CudaDriver::from_functions(driver_.functions());
    ASSERT_TRUE(driver.ok());
    auto device = CudaDevice::open(*driver);
    ASSERT_TRUE(device.ok());
    device_ = *device;
    auto library = Cudnn::from_functions(FakeCudnn::functions());
    ASSERT_TRUE(library.ok());
    auto handle = CudnnHandle::create(*library);
    ASSERT_TRUE(handle.ok());
    handle_ = *handle;
  }
  /// Runs the call on buffers at 100, 101, …
  void run(const ConvolutionCall& call) {
    auto stream = CudaStream::create(device_);
    ASSERT_TRUE(stream.ok());
    auto made = CudnnConvolution::create(handle_, call, "k0_y");
    ASSERT_TRUE(made.ok()) << made.error().message;
    CudnnConvolution moved = std::move(*made);
    const std::vector<CudaAddress> buffers = {100, 101, 102, 103, 104};
    EXPECT_TRUE(moved.run(*stream, buffers, 7).ok());
    EXPECT_NE(FakeCudnn::now().stream, nullptr);
  }
  FakeDriver driver_;
  std::shared_ptr<const CudaDevice> device_;
  std::shared_ptr<const CudnnHandle> handle_;
};

TEST_F(CudnnTest, DescribesWhatItIsAskedFor) {
  run(dense());
  const FakeCudnn& asked = FakeCudnn::now();
  ASSERT_EQ(asked.tensors.size(), 3U);
  EXPECT_EQ(asked.tensors[0].type, 2);  // CUDNN_DATA_HALF
  EXPECT_EQ(asked.tensors[0].extents, (std::vector<int>{2, 8, 9, 11}));
  EXPECT_EQ(asked.tensors[0].strides, (std::vector<int>{792, 1, 88, 8}));
  EXPECT_EQ(asked.tensors[1].extents, (std::vector<int>{2, 6, 5, 11}));
  EXPECT_EQ(asked.tensors[1].strides, (std::vector<int>{330, 1, 66, 6}));
  EXPECT_EQ(asked.tensors[2].extents, (std::vector<int>{1, 6, 1, 1}));
  EXPECT_EQ(asked.filter.extents, (std::vector<int>{6, 4, 3, 5}));
  EXPECT_EQ(asked.filter.format, 1);  // CUDNN_TENSOR_NHWC
  EXPECT_EQ(asked.convolution.padding, (std::vector<int>{1, 4}));
  EXPECT_EQ(asked.convolution.steps, (std::vector<int>{2, 1}));
  EXPECT_EQ(asked.convolution.dilations, (std::vector<int>{1, 2}));
  EXPECT_EQ(asked.convolution.groups, 2);
  EXPECT_EQ(asked.convolution.math, 1);  // CUDNN_TENSOR_OP_MATH
  EXPECT_TRUE(asked.clamps);
  EXPECT_EQ(asked.alpha2, 1);
  EXPECT_EQ(asked.residual, reinterpret_cast<void*>(103));
  EXPECT_EQ(asked.biases, reinterpret_cast<void*>(102));
}

TEST_F(CudnnTest, GivesAnImageTwoAxesAndChannelsFirst) {
  ConvolutionCall call = dense();
  call.type = DType::kF32;
  call.channels_last = false;
  call.axes.pop_back();
  call.bias = call.residual = -1;
  call.clamps = false;
  run(call);
  const FakeCudnn& asked = FakeCudnn::now();
  EXPECT_EQ(asked.tensors[0].extents, (std::vector<int>{2, 8, 9, 1}));
  EXPECT_EQ(asked.tensors[0].strides, (std::vector<int>{72, 9, 1, 1}));
  EXPECT_EQ(asked.filter.extents, (std::vector<int>{6, 4, 3, 1}));
  EXPECT_EQ(asked.filter.format, 0);
  EXPECT_EQ(asked.convolution.math, 3);  // CUDNN_FMA_MATH: float32 stays what it is
  EXPECT_EQ(asked.started, 0);
  EXPECT_EQ(asked.alpha2, -1);
}

TEST_F(CudnnTest, TakesTheFirstAlgorithmThatMultiplies) {
  FakeCudnn& fake = FakeCudnn::now();
  // Transforms, one that failed, one whose order changes, one that wants too much.
  fake.proposals = {proposal(6),
                    proposal(4),
                    proposal(1, 3000),
                    proposal(1, 0, 0, 0),
                    proposal(1, 0, size_t{1} << 40),
                    proposal(2, 0, 64)};
  run(dense());
  EXPECT_EQ(fake.started, 2);
  // A bias without a clamp is one algorithm's.
  ConvolutionCall call = dense();
  call.clamps = false;
  fake.proposals = {proposal(0), proposal(1)};
  run(call);
  EXPECT_EQ(fake.started, 1);
  fake.proposals = {proposal(0)};
  auto none = CudnnConvolution::create(handle_, call, "k0_y");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kMissingDevice);
  EXPECT_NE(none.error().message.find("'k0_y': cuDNN has no algorithm for f16 last"),
            std::string::npos);
  handle_.reset();
  EXPECT_EQ(fake.alive, 0);
}

TEST_F(CudnnTest, SaysWhatIsMissing) {
  auto none = Cudnn::load("libnothing-of-the-kind.so");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kMissingDevice);
  EXPECT_NE(none.error().message.find("libnothing-of-the-kind.so"), std::string::npos);
  auto other = Cudnn::load("libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("cudnnGetVersion"), std::string::npos);
  FakeCudnn::now().version = 8907;
  auto old = Cudnn::from_functions(FakeCudnn::functions());
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().message, "the program calls cuDNN 9; the library found is 8.9.7");
  EXPECT_EQ(handle_->library().check(2000, "t").error().code, ErrorCode::kInternal);
  EXPECT_EQ(handle_->library().check(3004, "t").error().code, ErrorCode::kMissingDevice);
}

}  // namespace
}  // namespace weft
