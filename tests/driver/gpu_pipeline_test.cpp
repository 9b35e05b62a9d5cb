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

}  // namespace
}  // namespace weft::testing
