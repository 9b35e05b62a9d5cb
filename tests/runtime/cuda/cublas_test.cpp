#include "runtime/cuda/cublas.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "fake_driver.h"

namespace weft {
namespace {

/// cuBLASLt over host memory and float32: descriptors are maps of attributes, matrices store their
/// columns together, as the library's documentation has it.
struct FakeCublas {
  struct Descriptor {
    std::map<int, uint64_t> attributes;
    uint64_t rows = 0, columns = 0;
    int64_t leading = 0;
  };
  static int& alive() {
    static int count = 0;
    return count;
  }
  static int& proposals() {
    static int count = 1;
    return count;
  }
  static int create(void** handle) {
    *handle = new Descriptor;
    ++alive();
    return 0;
  }
  static int destroy(void* handle) {
    delete static_cast<Descriptor*>(handle);
    --alive();
    return 0;
  }
  static int set(void* handle, int which, const void* value, size_t bytes) {
    uint64_t read = 0;
    std::memcpy(&read, value, bytes);
    static_cast<Descriptor*>(handle)->attributes[which] = read;
    return 0;
  }
  static float at(const void* base, const Descriptor& d, uint64_t batch, uint64_t i, uint64_t j) {
    EXPECT_LT(i, d.rows);
    EXPECT_LT(j, d.columns);
    return static_cast<const float*>(
        base)[batch * d.attributes.at(6) + i + j * static_cast<uint64_t>(d.leading)];
  }
  static int multiply(void*, void* operation, const void* alpha, const void* a, void* a_layout,
                      const void* b, void* b_layout, const void* beta, const void*, void*, void* d,
                      void* d_layout, const void*, void* workspace, size_t, void* stream) {
    EXPECT_EQ(*static_cast<const float*>(alpha), 1.0F);
    EXPECT_EQ(*static_cast<const float*>(beta), 0.0F);
    EXPECT_NE(stream, nullptr);
    EXPECT_NE(workspace, nullptr);
    auto& op = static_cast<Descriptor*>(operation)->attributes;
    const auto& da = *static_cast<Descriptor*>(a_layout);
    const auto& db = *static_cast<Descriptor*>(b_layout);
    const auto& dd = *static_cast<Descriptor*>(d_layout);
    const uint64_t depth = op[3] != 0 ? da.rows : da.columns;
    const uint64_t epilogue = op[7];
    for (uint64_t batch = 0; batch < dd.attributes.at(5); ++batch) {
      for (uint64_t j = 0; j < dd.columns; ++j) {
        for (uint64_t i = 0; i < dd.rows; ++i) {
          float sum = 0;
          for (uint64_t l = 0; l < depth; ++l) {
            sum += (op[3] != 0 ? at(a, da, batch, l, i) : at(a, da, batch, i, l)) *
                   (op[4] != 0 ? at(b, db, batch, j, l) : at(b, db, batch, l, j));
          }
          if ((epilogue & 4) != 0) sum += reinterpret_cast<const float*>(op[8])[i];
          if ((epilogue & 2) != 0) sum = std::max(sum, 0.0F);
          static_cast<float*>(
              d)[batch * dd.attributes.at(6) + i + j * static_cast<uint64_t>(dd.leading)] = sum;
        }
      }
    }
    return 0;
  }

  static CublasFunctions functions() {
    CublasFunctions f = {};
    f.cublasLtCreate = create;
    f.cublasLtDestroy = destroy;
    f.cublasLtMatmulDescCreate = [](void** handle, int compute, int scale) {
      EXPECT_EQ(compute, 68);  // CUBLAS_COMPUTE_32F
      EXPECT_EQ(scale, 0);     // CUDA_R_32F
      return create(handle);
    };
    f.cublasLtMatmulDescDestroy = destroy;
    f.cublasLtMatmulDescSetAttribute = set;
    f.cublasLtMatrixLayoutCreate = [](void** handle, int type, uint64_t rows, uint64_t columns,
                                      int64_t leading) {
      EXPECT_EQ(type, 0);
      create(handle);
      auto* d = static_cast<Descriptor*>(*handle);
      d->rows = rows;
      d->columns = columns;
      d->leading = leading;
      return 0;
    };
    f.cublasLtMatrixLayoutDestroy = destroy;
    f.cublasLtMatrixLayoutSetAttribute = set;
    f.cublasLtMatmulPreferenceCreate = create;
    f.cublasLtMatmulPreferenceDestroy = destroy;
    f.cublasLtMatmulPreferenceSetAttribute = set;
    f.cublasLtMatmulAlgoGetHeuristic = [](void*, void*, void*, void*, void*, void*, void*, int,
                                          void*, int* found) {
      *found = proposals();
      return 0;
    };
    f.cublasLtMatmul = multiply;
    return f;
  }
};

class CublasTest : public testing::Test {
 protected:
  void SetUp() override {
    auto driver = CudaDriver::from_functions(fake_.functions());
    ASSERT_TRUE(driver.ok());
    auto device = CudaDevice::open(*driver);
    ASSERT_TRUE(device.ok());
    device_ = *device;
  }
  FakeDriver fake_;
  std::shared_ptr<const CudaDevice> device_;
};

int64_t elements_touched(const ProductCall& call, int32_t position) {
  for (const CallBuffer& b : buffers_of(call)) {
    if (b.position == position) return b.elements;
  }
  return 0;
}

/// C of the call by its definition.
std::vector<float> expected(const ProductCall& call, const std::vector<float>& a,
                            const std::vector<float>& b, const std::vector<float>& bias) {
  std::vector<float> c(static_cast<size_t>(elements_touched(call, call.c)), -1.0F);
  for (int64_t batch = 0; batch < call.batch; ++batch) {
    for (int64_t i = 0; i < call.m; ++i) {
      for (int64_t j = 0; j < call.n; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < call.k; ++l) {
          const int64_t at_a = call.a_transposed ? l * call.a_row + i : i * call.a_row + l;
          const int64_t at_b = call.b_transposed ? j * call.b_row + l : l * call.b_row + j;
          sum += a[static_cast<size_t>(batch * call.a_matrix + at_a)] *
                 b[static_cast<size_t>(batch * call.b_matrix + at_b)];
        }
        if (call.bias >= 0) sum += bias[static_cast<size_t>(j)];
        if (call.clamps) sum = std::max(sum, 0.0F);
        c[static_cast<size_t>(batch * call.c_matrix + i * call.c_row + j)] = sum;
      }
    }
  }
  return c;
}

std::vector<float> ramp(int64_t count, int64_t step) {
  std::vector<float> v(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    v[static_cast<size_t>(i)] = static_cast<float>(i * step % 17 - 8);
  return v;
}

CudaAddress address(const void* p) { return reinterpret_cast<CudaAddress>(p); }

TEST_F(CublasTest, AsksForTheProductInTheLibrarysOrder) {
  for (int form = 0; form < 16; ++form) {
    ProductCall call{.batch = 2, .m = 3, .n = 5, .k = 4};
    call.a_transposed = (form & 1) != 0;
    call.b_transposed = (form & 2) != 0;
    call.bias = (form & 4) != 0 ? 3 : -1;
    call.clamps = (form & 8) != 0;
    call.a_row = call.a_transposed ? 3 : 6;
    call.b_row = call.b_transposed ? 4 : 5;
    call.c_row = 7;
    call.a_matrix = 24;
    call.b_matrix = (form & 1) != 0 ? 0 : 20;  // a weight serves the whole batch
    call.c_matrix = 21;
    ASSERT_TRUE(verify_product_call(call).ok());
    const auto a = ramp(elements_touched(call, 0), 5), b = ramp(elements_touched(call, 1), 3);
    const auto bias = ramp(5, 7);
    std::vector<float> c(static_cast<size_t>(elements_touched(call, 2)), -1.0F);
    std::array<char, 8> workspace;
    auto stream = CudaStream::create(device_);
    ASSERT_TRUE(stream.ok());
    auto product =
        CublasProduct::create(Cublas::from_functions(FakeCublas::functions()), call, "k0_y");
    ASSERT_TRUE(product.ok()) << product.error().message;
    const std::array<CudaAddress, 4> buffers = {address(a.data()), address(b.data()),
                                                address(c.data()), address(bias.data())};
    CublasProduct moved = std::move(*product);
    EXPECT_GT(moved.workspace_bytes(), 0);
    EXPECT_TRUE(moved.run(*stream, buffers, address(workspace.data())).ok());
    EXPECT_EQ(c, expected(call, a, b, bias)) << print(call);
  }
  EXPECT_EQ(FakeCublas::alive(), 0);
}

TEST_F(CublasTest, SaysWhatIsMissing) {
  const ProductCall call{.m = 3, .n = 5, .k = 4, .a_row = 4, .b_row = 5, .c_row = 5};
  FakeCublas::proposals() = 0;
  auto product =
      CublasProduct::create(Cublas::from_functions(FakeCublas::functions()), call, "k0_y");
  FakeCublas::proposals() = 1;
  ASSERT_FALSE(product.ok());
  EXPECT_EQ(product.error().code, ErrorCode::kMissingDevice);
  EXPECT_NE(product.error().message.find("'k0_y'"), std::string::npos);
  EXPECT_EQ(FakeCublas::alive(), 0);

  auto none = Cublas::load("libnothing-of-the-kind.so");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kMissingDevice);
  EXPECT_NE(none.error().message.find("libnothing-of-the-kind.so"), std::string::npos);
  auto other = Cublas::load("libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("cublasLtCreate"), std::string::npos);
}

}  // namespace
}  // namespace weft
