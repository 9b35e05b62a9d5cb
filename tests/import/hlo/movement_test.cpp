#include <fmt/format.h>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

std::vector<double> count_to(int n) {
  std::vector<double> values;
  for (int i = 1; i <= n; ++i) values.push_back(i);
  return values;
}

/// One instruction on x: f32[2,3] = {{1,2,3},{4,5,6}}.
std::vector<double> on_matrix(std::string_view instruction) {
  return run(module_of(fmt::format("  x = f32[2,3] parameter(0)\n  ROOT r = {}", instruction)),
             {floats({2, 3}, count_to(6))});
}

TEST(Movement, TransposesSlicesAndReverses) {
  expect_values(on_matrix("f32[3,2] transpose(x), dimensions={1,0}"), {1, 4, 2, 5, 3, 6});
  expect_values(on_matrix("f32[1,2] slice(x), slice={[1:2], [0:3:2]}"), {4, 6});
  expect_values(on_matrix("f32[2,3] reverse(x), dimensions={0,1}"), {6, 5, 4, 3, 2, 1});
  expect_values(on_matrix("f32[2,6] concatenate(x, x), dimensions={1}"),
                {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
}

TEST(Movement, BroadcastsAlongAxesInAnyOrder) {
  expect_values(on_matrix("f32[3,2,2] broadcast(x), dimensions={2,0}"),
                {1, 4, 1, 4, 2, 5, 2, 5, 3, 6, 3, 6});
}

TEST(Movement, BitcastsGoByLayout) {
  // In memory x is 1 4 2 5 3 6.
  const std::string text = module_of(R"(  x = f32[2,3]{0,1} parameter(0)
  ROOT r = f32[6] bitcast(x))");
  expect_values(run(text, {floats({2, 3}, count_to(6))}), {1, 4, 2, 5, 3, 6});
  expect_values(on_matrix("f32[3,2]{0,1} bitcast(x)"), {1, 4, 2, 5, 3, 6});
}

TEST(Movement, PadsBetweenElementsAndCrops) {
  const auto padded = [](std::string_view shape, std::string_view padding) {
    return run(module_of(fmt::format(R"(  x = f32[3] parameter(0)
  fill = f32[] constant(9)
  ROOT r = f32[{}] pad(x, fill), padding={})",
                                     shape, padding)),
               {floats({3}, {1, 2, 3})});
  };
  expect_values(padded("8", "1_0_2"), {9, 1, 9, 9, 2, 9, 9, 3});
  expect_values(padded("4", "-1_-2_2"), {9, 9, 2, 9});
  expect_values(padded("2", "-2_1"), {3, 9});
}

TEST(Movement, BarriersOfTheOptimiserAreNothing) {
  expect_values(run(module_of(R"(  x = f32[2,3] parameter(0)
  t = (f32[2,3], f32[2,3]) tuple(x, x)
  b = (f32[2,3], f32[2,3]) opt-barrier(t)
  g = f32[2,3] get-tuple-element(b), index=1
  ROOT r = f32[2,3] add(g, g))"),
                    {floats({2, 3}, count_to(6))}),
                {2, 4, 6, 8, 10, 12});
}

TEST(DynamicSlice, StaysWithinTheArray) {
  const std::string text = module_of(R"(  x = f32[2,3] parameter(0)
  i = s32[] parameter(1)
  j = s32[] parameter(2)
  ROOT r = f32[1,2] dynamic-slice(x, i, j), dynamic_slice_sizes={1,2})");
  const auto at = [&](double i, double j) {
    return run(text, {floats({2, 3}, count_to(6)), ints({}, {i}), ints({}, {j})});
  };
  expect_values(at(0, 1), {2, 3});
  expect_values(at(1, 5), {5, 6});
  expect_values(at(-4, -1), {1, 2});
}

TEST(DynamicUpdateSlice, ReplacesAWindow) {
  const std::string text = module_of(R"(  x = f32[2,3] parameter(0)
  u = f32[1,2] parameter(1)
  i = s32[] parameter(2)
  j = s64[] parameter(3)
  ROOT r = f32[2,3] dynamic-update-slice(x, u, i, j))");
  const auto at = [&](double i, double j) {
    return run(text, {floats({2, 3}, count_to(6)), floats({1, 2}, {8, 9}), ints({}, {i}),
                      tensor_of(DType::kI64, {}, {j})});
  };
  expect_values(at(0, 0), {8, 9, 3, 4, 5, 6});
  expect_values(at(1, 7), {1, 2, 3, 4, 8, 9});
  expect_values(at(-1, 1), {1, 8, 9, 4, 5, 6});
}

TEST(DynamicUpdateSlice, IsPiecesSideBySideWhereItsPlaceIsKnown) {
  EXPECT_EQ(import_text(module_of(R"(  x = f32[4,3] parameter(0)
  u = f32[2,3] parameter(1)
  one = s32[] constant(1)
  zero = s32[] constant(0)
  ROOT r = f32[4,3] dynamic-update-slice(x, u, one, zero))")),
            R"((arg0: f32[4,3], arg1: f32[2,3]) {
  v2 = slice arg0, start={0,0}, step={1,1} : f32[1,3]
  v3 = slice arg0, start={3,0}, step={1,1} : f32[1,3]
  out0 = concat v2, arg1, v3, axis=0 : f32[4,3]
} -> (out0)
)");
}

TEST(Movement, RefusesWhatDoesNotFit) {
  const auto error = [](std::string_view instruction) {
    return import_error(
        module_of(fmt::format("  x = f32[2,3] parameter(0)\n  ROOT r = {}", instruction)));
  };
  EXPECT_THAT(error("f32[5] reshape(x)"), HasSubstr("cannot become [5]"));
  EXPECT_THAT(error("f32[3,2] transpose(x), dimensions={0,0}"), HasSubstr("not a permutation"));
  EXPECT_THAT(error("f32[2,2] slice(x), slice={[0:2], [2:4]}"), HasSubstr("not within axis 1"));
  EXPECT_THAT(error("f32[2,2] slice(x), slice={[0:2], [0:3:0]}"), HasSubstr("not within axis 1"));
  EXPECT_THAT(error("f32[2,3,4] broadcast(x), dimensions={0,2}"), HasSubstr("do not fit"));
  EXPECT_THAT(error("f32[2,3] pad(x, x), padding=1_1"), HasSubstr("one amount per axis"));
  EXPECT_THAT(error("f32[2,3] get-tuple-element(x), index=0"), HasSubstr("has no element 0"));
}

TEST(SetDimensionSize, IsTheArrayWhereTheSizeIsItsExtent) {
  const auto text = [](int size) {
    return module_of(fmt::format(R"(  x = f32[2,3] parameter(0)
  n = s32[] constant({})
  ROOT r = f32[2,3] set-dimension-size(x, n), dimensions={{1}})",
                                 size));
  };
  expect_values(run(text(3), {floats({2, 3}, {1, 2, 3, 4, 5, 6})}), {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(import_error(text(2), ErrorCode::kUnsupported), HasSubstr("filled in part"));
}

}  // namespace
}  // namespace weft::hlo
