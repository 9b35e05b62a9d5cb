#include <fmt/format.h>

#include <limits>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

const double kNan = std::numeric_limits<double>::quiet_NaN();

std::string sort_floats(std::string_view comparator) {
  return module_of(
      "  x = f32[5] parameter(0)\n  ROOT r = f32[5] sort(x), dimensions={0}, "
      "is_stable=true, to_apply=f",
      fmt::format("f {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n{}\n}}\n",
                  comparator));
}

TEST(Sort, IsOneNodeWhereElementsAreCompared) {
  const std::string up = sort_floats("  ROOT c = pred[] compare(a, b), direction=LT");
  EXPECT_EQ(import_text(up), R"((arg0: f32[5]) {
  out0, v2 = sort arg0, axis=0, descending=false : f32[5], i64[5]
} -> (out0)
)");
  const std::string down = sort_floats("  ROOT c = pred[] compare(b, a), direction=LT");
  EXPECT_THAT(import_text(down), HasSubstr("descending=true"));
  expect_values(run(down, {floats({5}, {3, 1, 2, 5, 4})}), {5, 4, 3, 2, 1});
}

TEST(Sort, GoesByAFunctionOfTheElements) {
  // By magnitude, NaN as 0.
  const std::string text = sort_floats(R"(  zero = f32[] constant(0)
  p = pred[] compare(a, a), direction=NE
  q = pred[] compare(b, b), direction=NE
  d = f32[] select(p, zero, a)
  e = f32[] select(q, zero, b)
  g = f32[] abs(d)
  h = f32[] abs(e)
  ROOT c = pred[] compare(g, h), direction=LT, type=TOTALORDER)");
  expect_values(run(text, {floats({5}, {-3, 1, kNan, 2, -1})}), {kNan, 1, -1, 2, -3});
}

TEST(Sort, TakesOtherArraysAlongAndFurtherKeys) {
  // By x, then by y from the largest; z goes along.
  const std::string text = module_of(R"(  x = s32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  z = s32[2,3] iota(), iota_dimension=1
  ROOT r = (s32[2,3], f32[2,3], s32[2,3]) sort(x, y, z), dimensions={1}, to_apply=f)",
                                     R"(f {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  e = s32[] parameter(4)
  g = s32[] parameter(5)
  less = pred[] compare(a, b), direction=LT
  same = pred[] compare(a, b), direction=EQ
  more = pred[] compare(c, d), direction=GT
  tie = pred[] and(same, more)
  ROOT o = pred[] or(less, tie)
})");
  const auto values =
      run_all(text, {ints({2, 3}, {2, 1, 2, 0, 0, 0}), floats({2, 3}, {5, 6, 7, 1, 3, 2})});
  ASSERT_EQ(values.size(), 3U);
  expect_values(values[0], {1, 2, 2, 0, 0, 0});
  expect_values(values[1], {6, 7, 5, 3, 2, 1});
  expect_values(values[2], {1, 2, 0, 1, 2, 0});
}

TEST(Sort, RefusesComparatorsThatCompareNoKeys) {
  EXPECT_THAT(import_error(sort_floats(R"(  s = f32[] add(a, b)
  zero = f32[] constant(0)
  ROOT c = pred[] compare(s, zero), direction=LT)"),
                           ErrorCode::kUnsupported),
              HasSubstr("its comparator"));
  EXPECT_THAT(import_error(sort_floats(R"(  n = f32[] negate(b)
  ROOT c = pred[] compare(a, n), direction=LT)"),
                           ErrorCode::kUnsupported),
              HasSubstr("its comparator"));
}

TEST(TopK, GivesValuesAndPlaces) {
  for (const std::string_view call :
       {"topk(x), k=2, largest=true", "custom-call(x), custom_call_target=\"TopK\""}) {
    const auto values =
        run_all(module_of(fmt::format(
                    "  x = f32[2,3] parameter(0)\n  ROOT r = (f32[2,2], s32[2,2]) {}", call)),
                {floats({2, 3}, {1, 3, 2, 6, 4, 5})});
    ASSERT_EQ(values.size(), 2U);
    expect_values(values[0], {3, 2, 6, 5});
    expect_values(values[1], {1, 2, 0, 2});
  }
}

}  // namespace
}  // namespace weft::hlo
