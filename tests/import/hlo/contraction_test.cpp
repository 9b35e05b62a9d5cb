#include <fmt/format.h>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

TEST(Dot, TakesAnyAxes) {
  EXPECT_EQ(import_text(module_of(R"(  a = f32[3,4,5,6] parameter(0)
  b = f32[6,5,4,7] parameter(1)
  ROOT r = f32[5,4,3,7] dot(a, b), lhs_batch_dims={2,1}, lhs_contracting_dims={3}, rhs_batch_dims={1,2}, rhs_contracting_dims={0})")),
            R"((arg0: f32[3,4,5,6], arg1: f32[6,5,4,7]) {
  out0 = dot_general arg0, arg1, lhs_batch={2,1}, rhs_batch={1,2}, lhs_contract={3}, rhs_contract={0} : f32[5,4,3,7]
} -> (out0)
)");
}

TEST(Dot, SumsInTheTypeOfItsResult) {
  const std::string text = module_of(R"(  a = s8[1,3] parameter(0)
  b = s8[3,1] parameter(1)
  ROOT r = s32[1,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0})");
  expect_values(run(text, {tensor_of(DType::kI8, {1, 3}, {100, 100, 100}),
                           tensor_of(DType::kI8, {3, 1}, {100, 100, 1})}),
                {20100});
}

TEST(Convolution, TakesAnyOrderOfAxes) {
  // One row of three, a kernel of two: 1*10 + 2*20, 2*10 + 3*20.
  const std::string text = module_of(R"(  x = f32[3,1,1] parameter(0)
  w = f32[1,2,1] parameter(1)
  ROOT r = f32[1,1,2] convolution(x, w), window={size=2}, dim_labels=0bf_i0o->bf0)");
  expect_values(run(text, {floats({3, 1, 1}, {1, 2, 3}), floats({1, 2, 1}, {10, 20})}), {50, 80});
}

TEST(Convolution, DilatesPadsAndReverses) {
  const auto result = [](std::string_view extent, std::string_view window) {
    return run(module_of(fmt::format(R"(  x = f32[1,1,3] parameter(0)
  w = f32[1,1,2] parameter(1)
  ROOT r = f32[1,1,{}] convolution(x, w), window={{size=2 {}}}, dim_labels=bf0_oi0->bf0)",
                                     extent, window)),
               {floats({1, 1, 3}, {1, 2, 3}), floats({1, 1, 2}, {10, 100})});
  };
  expect_values(result("2", "pad=0_0"), {210, 320});
  expect_values(result("2", "rhs_reversal=1"), {120, 230});
  expect_values(result("4", "lhs_dilate=2"), {10, 200, 20, 300});
  expect_values(result("1", "rhs_dilate=2"), {310});
  expect_values(result("2", "stride=2 pad=1_0"), {100, 320});
  expect_values(result("1", "pad=-1_0"), {320});
}

TEST(Convolution, FallsIntoGroupsOfFeaturesOrOfTheBatch) {
  const std::string features = module_of(R"(  x = f32[1,2,1] parameter(0)
  w = f32[4,1,1] parameter(1)
  ROOT r = f32[1,4,1] convolution(x, w), window={size=1}, dim_labels=bf0_oi0->bf0, feature_group_count=2)");
  const HostTensor w = floats({4, 1, 1}, {1, 10, 100, 1000});
  expect_values(run(features, {floats({1, 2, 1}, {2, 3}), w}), {2, 20, 300, 3000});
  const std::string batch = module_of(R"(  x = f32[2,1,1] parameter(0)
  w = f32[4,1,1] parameter(1)
  ROOT r = f32[1,4,1] convolution(x, w), window={size=1}, dim_labels=bf0_oi0->bf0, batch_group_count=2)");
  expect_values(run(batch, {floats({2, 1, 1}, {2, 3}), w}), {2, 20, 300, 3000});
}

TEST(Convolution, WithoutWindowIsAProduct) {
  const std::string text = module_of(R"(  x = f32[2,2] parameter(0)
  w = f32[2,1] parameter(1)
  ROOT r = f32[2,1] convolution(x, w), dim_labels=bf_io->bf)");
  expect_values(run(text, {floats({2, 2}, {1, 2, 3, 4}), floats({2, 1}, {10, 100})}), {210, 430});
}

TEST(Convolution, RefusesWhatDoesNotFit) {
  const auto error = [](std::string_view rest) {
    return import_error(module_of(fmt::format(R"(  x = f32[1,1,3] parameter(0)
  w = f32[1,1,2] parameter(1)
  ROOT r = f32[1,1,2] convolution(x, w), {})",
                                              rest)));
  };
  EXPECT_THAT(error("window={size=2}, dim_labels=bf0_oi1->bf0"), HasSubstr("name each axis once"));
  EXPECT_THAT(error("window={size=3}, dim_labels=bf0_oi0->bf0"), HasSubstr("not the kernel's"));
  EXPECT_THAT(error("window={size=2x2}, dim_labels=bf0_oi0->bf0"), HasSubstr("number of axes"));
  EXPECT_THAT(error("window={size=2 depth=1}, dim_labels=bf0_oi0->bf0"),
              HasSubstr("a window has no 'depth'"));
  EXPECT_THAT(error("window={size=2}, dim_labels=bf0_oi0->bf0, batch_group_count=0"),
              HasSubstr("do not divide"));
}

}  // namespace
}  // namespace weft::hlo
