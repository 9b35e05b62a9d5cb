// Products on matrix units, from the graph to the emulator: every tail, both orders of both
// operands, batches, convolutions, what is computed on the way in and out.

#include "tests/driver/gpu_pipeline.h"

namespace weft::testing {
namespace {

class MatrixUnits : public GpuPipeline {};

/// `text` with the numbers in place of M, N, K.
std::string sized(std::string text, const std::string& sizes) {
  std::istringstream in(sizes);
  for (const char* name : {"$M", "$N", "$K"}) {
    std::string size;
    in >> size;
    text = replaced(std::move(text), name, size);
  }
  return text;
}

void expect_on_units(const std::string& text, double tolerance) {
  const auto c = expect_same(text, tolerance);
  ASSERT_NE(c, nullptr);
  EXPECT_THAT(*print_level(*c, "tile-program"), ::testing::HasSubstr("by mma_")) << text;
}

TEST_F(MatrixUnits, ProductsWithAnEpilogue) {
  for (const char* type : {"f16", "bf16"}) {
    for (const char* sizes : {"64 80 96", "37 46 50", "17 9 16", "130 70 200"}) {
      const std::string text = sized(R"(
        (a: T[$M,$K], b: T[$K,$N], c: T[$N], r: T[$M,$N]) {
          p = dot_general a, b, lhs_contract={1}, rhs_contract={0} : T[$M,$N]
          d = broadcast c, dims={1} : T[$M,$N]
          q = add p, d : T[$M,$N]
          t = tanh q : T[$M,$N]
          y = add t, r : T[$M,$N]
        } -> (y))",
                                     sizes);
      expect_on_units(replaced(text, "T[", type + std::string("[")),
                      type == std::string("f16") ? 4e-3 : 3e-2);
    }
  }
}

}  // namespace
}  // namespace weft::testing
