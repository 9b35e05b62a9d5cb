// Graphs through the whole pipeline for a GPU, compared with the interpreter on the emulator.

#include "tests/driver/gpu_pipeline.h"

namespace weft::testing {
namespace {

TEST_F(GpuPipeline, ElementwiseChainIsOneKernelOfVectors) {
  for (const char* shape : {"7,33", "4,256", "1001"}) {
    const auto c = expect_same(replaced(R"(
      (x: f32[S], z: f32[S]) {
        a = exp x : f32[S]
        b = mul a, z : f32[S]
        y = tanh b : f32[S]
      } -> (y))",
                                        "S", shape));
    ASSERT_NE(c, nullptr);
    ASSERT_EQ(c->kernels.size(), 1u);
    EXPECT_THAT(*print_level(*c, "code"), ::testing::HasSubstr("wf_load_ro<4>"));
  }
}

TEST_F(GpuPipeline, SoftmaxOfAnyLengthIsOneKernel) {
  // A few lanes a row, a warp, several warps, and sweeps.
  for (const char* shape : {"37,5", "9,32", "5,100", "3,1000", "2,9001", "1,70000"}) {
    const std::string rows = std::string(shape).substr(0, std::string(shape).find(','));
    const auto c = expect_same(replaced(replaced(R"(
      (x: f32[S]) {
        m = reduce x, axes={1}, combiner=max : f32[R]
        mb = broadcast m, dims={0} : f32[S]
        d = sub x, mb : f32[S]
        e = exp d : f32[S]
        s = reduce e, axes={1}, combiner=sum : f32[R]
        sb = broadcast s, dims={0} : f32[S]
        y = div e, sb : f32[S]
      } -> (y))",
                                                 "S", shape),
                                        "R", rows));
    ASSERT_NE(c, nullptr) << shape;
    EXPECT_EQ(c->kernels.size(), 1u);
  }
}

TEST_F(GpuPipeline, ColumnsAreReducedAcrossWarps) {
  for (const char* rows : {"7", "300"}) {
    expect_same(replaced(R"(
      (x: f32[R,70]) {
        s = reduce x, axes={0}, combiner=sum : f32[70]
        y = exp s : f32[70]
      } -> (y))",
                         "R", rows),
                1e-4);
  }
}

TEST_F(GpuPipeline, ProductsWithAllTails) {
  for (const char* sizes : {"64 48 32", "37 45 21", "5 3 100", "1 50 64", "70 1 19"}) {
    std::string m, n, k;
    std::istringstream(sizes) >> m >> n >> k;
    std::string text = R"(
      (a: f32[M,K], b: f32[K,N], c: f32[N]) {
        p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : f32[M,N]
        d = broadcast c, dims={1} : f32[M,N]
        q = add p, d : f32[M,N]
        y = tanh q : f32[M,N]
      } -> (y))";
    text = replaced(replaced(replaced(text, "M", m), "N", n), "K", k);
    expect_same(text, 1e-4);
  }
}

}  // namespace
}  // namespace weft::testing
