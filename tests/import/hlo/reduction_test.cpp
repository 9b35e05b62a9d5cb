#include <fmt/format.h>

#include <limits>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

const double kNan = std::numeric_limits<double>::quiet_NaN();

std::string reducer(std::string_view body) {
  return fmt::format("f {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n{}\n}}\n", body);
}

std::string reduce_rows(std::string_view body, std::string_view init) {
  return module_of(fmt::format(R"(  x = f32[2,3] parameter(0)
  i = f32[] constant({})
  ROOT r = f32[2] reduce(x, i), dimensions={{1}}, to_apply=f)",
                               init),
                   reducer(body));
}

const HostTensor kMatrix = floats({2, 3}, {1, 5, 3, 4, 2, 6});

TEST(Reduce, IsOneNodeFromItsIdentity) {
  EXPECT_EQ(import_text(reduce_rows("  ROOT c = f32[] add(b, a)", "0")),
            R"((arg0: f32[2,3]) {
  out0 = reduce arg0, axes={1}, combiner=sum : f32[2]
} -> (out0)
)");
}

TEST(Reduce, JoinsAnInitThatIsNoIdentity) {
  expect_values(run(reduce_rows("  ROOT c = f32[] add(a, b)", "100"), {kMatrix}), {109, 112});
  expect_values(run(reduce_rows("  ROOT c = f32[] minimum(a, b)", "2.5"), {kMatrix}), {1, 2});
  expect_values(run(reduce_rows("  ROOT c = f32[] multiply(a, b)", "1"), {kMatrix}), {15, 48});
}

constexpr std::string_view kSelectsLarger = R"(  p = pred[] compare(a, b), direction=GE
  q = pred[] compare(a, a), direction=NE
  o = pred[] or(p, q)
  ROOT c = f32[] select(o, a, b))";

TEST(Reduce, KnowsAnExtremumByWhatItSelects) {
  EXPECT_THAT(import_text(reduce_rows(kSelectsLarger, "-inf")), HasSubstr("combiner=max"));
}

TEST(Reduce, KeepsASelectionThatTreatsNanOtherwise) {
  // Where a or b is NaN this takes b.
  const std::string text = reduce_rows(R"(  p = pred[] compare(a, b), direction=GE
  ROOT c = f32[] select(p, a, b))",
                                       "-inf");
  EXPECT_THAT(import_text(text), HasSubstr("scan"));
  expect_values(run(text, {floats({2, 3}, {5, kNan, 1, 1, 7, 3})}), {1, 7});
}

TEST(Reduce, RunsAnyComputationInOrder) {
  // ((0.5 * 2 + 1) * 2 + 5) * 2 + 3
  expect_values(run(reduce_rows(R"(  two = f32[] constant(2)
  d = f32[] multiply(a, two)
  ROOT c = f32[] add(d, b))",
                                "0.5"),
                    {kMatrix}),
                {21, 30});
}

TEST(Reduce, OfNoElementsGivesItsInit) {
  const std::string text = module_of(R"(  x = f32[2,0] parameter(0)
  i = f32[] constant(7)
  ROOT r = f32[2] reduce(x, i), dimensions={1}, to_apply=f)",
                                     reducer("  ROOT c = f32[] add(a, b)"));
  expect_values(run(text, {floats({2, 0}, {})}), {7, 7});
}

/// The largest value and its place, as JAX writes it.
constexpr std::string_view kArgMax = R"(larger {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  nan = pred[] compare(a, a), direction=NE
  takes = pred[] or(gt, nan)
  same = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, before)
  first = pred[] or(takes, tie)
  value = f32[] select(takes, a, b)
  place = s32[] select(first, i, j)
  ROOT t = (f32[], s32[]) tuple(value, place)
}
)";

std::string arg_max(std::string_view place) {
  return module_of(fmt::format(R"(  x = f32[2,4] parameter(0)
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  i = s32[2,4] {}
  ROOT r = (f32[2], s32[2]) reduce(x, i, low, zero), dimensions={{1}}, to_apply=larger)",
                               place),
                   kArgMax);
}

TEST(Reduce, KnowsALargestValueAndItsPlace) {
  const std::string text = arg_max("iota(), iota_dimension=1");
  EXPECT_THAT(import_text(text), HasSubstr("arg_reduce"));
  const auto values = run_all(text, {floats({2, 4}, {3, 9, 9, 1, 2, kNan, 8, kNan})});
  ASSERT_EQ(values.size(), 2U);
  expect_values(values[0], {9, kNan});
  expect_values(values[1], {1, 1});
}

TEST(Reduce, KnowsPlacesThatFoldedOrWereReshaped) {
  EXPECT_THAT(import_text(arg_max("constant({ {0,1,2,3}, {0,1,2,3} })")), HasSubstr("arg_reduce"));
  // So many that the reshape stays one.
  constexpr std::string_view kReshaped = R"(  x = f32[1,40000] parameter(0)
  count = s32[40000] iota(), iota_dimension=0
  places = s32[1,40000] reshape(count)
  least = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (f32[1], s32[1]) reduce(x, places, least, zero), dimensions={1}, to_apply=larger)";
  EXPECT_THAT(import_text(module_of(kReshaped, kArgMax)), HasSubstr("arg_reduce"));
}

TEST(Reduce, KnowsPlacesThatALoopHandsOn) {
  // Places are made before the loop, whose body takes the largest value's.
  const std::string text = module_of(R"(  x = f32[3,40000] parameter(0)
  places = s32[1,40000] iota(), iota_dimension=1
  zero = s32[] constant(0)
  found = s32[1] constant({0})
  in = (s32[], f32[3,40000], s32[1,40000], s32[1]) tuple(zero, x, places, found)
  w = (s32[], f32[3,40000], s32[1,40000], s32[1]) while(in), condition=more, body=step
  ROOT r = s32[1] get-tuple-element(w), index=3)",
                                     std::string(kArgMax) + R"(more {
  p = (s32[], f32[3,40000], s32[1,40000], s32[1]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
step {
  p = (s32[], f32[3,40000], s32[1,40000], s32[1]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[3,40000] get-tuple-element(p), index=1
  places = s32[1,40000] get-tuple-element(p), index=2
  found = s32[1] get-tuple-element(p), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  least = f32[] constant(-inf)
  row = f32[1,40000] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,40000}
  r = (f32[1], s32[1]) reduce(row, places, least, zero), dimensions={1}, to_apply=larger
  place = s32[1] get-tuple-element(r), index=1
  sum = s32[1] add(found, place)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[3,40000], s32[1,40000], s32[1]) tuple(next, x, places, sum)
})");
  EXPECT_THAT(import_text(text), HasSubstr("arg_reduce"));
}

TEST(Reduce, CarriesPlacesThatAreNoCount) {
  const std::string text = arg_max("constant({ {5,3,4,2}, {0,0,0,1} })");
  EXPECT_THAT(import_text(text), HasSubstr("scan"));
  const auto values = run_all(text, {floats({2, 4}, {3, 9, 9, 1, 2, 7, 8, 1})});
  ASSERT_EQ(values.size(), 2U);
  expect_values(values[0], {9, 8});
  expect_values(values[1], {3, 0});
}

TEST(Reduce, TakesSeveralValuesAtOnce) {
  const std::string text = module_of(R"(  x = f32[3] parameter(0)
  y = s32[3] parameter(1)
  zero = f32[] constant(0)
  one = s32[] constant(1)
  ROOT r = (f32[], s32[]) reduce(x, y, zero, one), dimensions={0}, to_apply=both)",
                                     R"(both {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  s = f32[] add(a, b)
  p = s32[] multiply(i, j)
  ROOT t = (f32[], s32[]) tuple(s, p)
})");
  const auto values = run_all(text, {floats({3}, {1, 2, 3}), ints({3}, {4, 5, 6})});
  ASSERT_EQ(values.size(), 2U);
  expect_values(values[0], {6});
  expect_values(values[1], {120});
}

TEST(Reduce, RefusesAReducerOfArrays) {
  EXPECT_THAT(import_error(reduce_rows(R"(  d = f32[2] iota(), iota_dimension=0
  e = f32[2] broadcast(a), dimensions={}
  ROOT c = f32[] dot(d, e), lhs_contracting_dims={0}, rhs_contracting_dims={0})",
                                       "0"),
                           ErrorCode::kUnsupported),
              HasSubstr("applied element by element"));
}

TEST(Reduce, RefusesAReducerOfOtherResults) {
  EXPECT_THAT(import_error(module_of(R"(  x = f32[3] parameter(0)
  y = s32[3] iota(), iota_dimension=0
  zero = f32[] constant(0)
  one = s32[] constant(1)
  ROOT r = (f32[], s32[]) reduce(x, y, zero, one), dimensions={0}, to_apply=both)",
                                     R"(both {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  ROOT s = f32[] add(a, b)
})")),
              HasSubstr("results do not fit"));
}

TEST(Map, AppliesAComputationToEachElement) {
  const std::string text = module_of(
      "  x = f32[3] parameter(0)\n  y = f32[3] parameter(1)\n  ROOT r = f32[3] map(x, y), "
      "dimensions={0}, to_apply=f",
      reducer("  two = f32[] constant(2)\n  d = f32[] multiply(a, two)\n  ROOT c = f32[] "
              "subtract(d, b)"));
  expect_values(run(text, {floats({3}, {1, 2, 3}), floats({3}, {10, 20, 30})}), {-8, -16, -24});
}

std::string window(std::string_view shape, std::string_view rest, std::string_view init = "0",
                   std::string_view body = "  ROOT c = f32[] add(a, b)") {
  return module_of(fmt::format(R"(  x = f32[4] parameter(0)
  i = f32[] constant({})
  ROOT r = f32[{}] reduce-window(x, i), window={{{}}}, to_apply=f)",
                               init, shape, rest),
                   reducer(body));
}

const HostTensor kFour = floats({4}, {1, 2, 3, 4});

TEST(ReduceWindow, SlidesAndPads) {
  expect_values(run(window("3", "size=2"), {kFour}), {3, 5, 7});
  expect_values(run(window("2", "size=2 stride=2"), {kFour}), {3, 7});
  expect_values(run(window("2", "size=3 stride=2 pad=1_0", "100"), {kFour}), {103, 109});
  expect_values(run(window("2", "size=2 rhs_dilate=2"), {kFour}), {4, 6});
  expect_values(run(window("6", "size=2 lhs_dilate=2"), {kFour}), {1, 2, 2, 3, 3, 4});
}

TEST(ReduceWindow, OverAllBeforeIsARunningSum) {
  EXPECT_THAT(import_text(window("4", "size=4 pad=3_0")), HasSubstr("cumulative"));
  expect_values(run(window("4", "size=4 pad=3_0"), {kFour}), {1, 3, 6, 10});
  expect_values(run(window("4", "size=4 pad=0_3"), {kFour}), {10, 9, 7, 4});
  expect_values(run(window("4", "size=4 pad=4_-1"), {kFour}), {0, 1, 3, 6});
  expect_values(run(window("4", "size=4 pad=-1_4"), {kFour}), {9, 7, 4, 0});
}

TEST(ReduceWindow, RunsAnyComputation) {
  // a * 10 + b from 0: the digits of the window, padding included.
  constexpr std::string_view kDigits = R"(  ten = f32[] constant(10)
  d = f32[] multiply(a, ten)
  ROOT c = f32[] add(d, b))";
  expect_values(run(window("3", "size=2", "0", kDigits), {kFour}), {12, 23, 34});
  expect_values(run(window("2", "size=3 stride=2 pad=0_1", "7", kDigits), {kFour}), {7123, 7347});
}

TEST(ReduceWindow, RefusesWhatMakesNoSense) {
  EXPECT_THAT(import_error(window("4", "size=0")), HasSubstr("at least 1"));
  EXPECT_THAT(import_error(window("4", "size=2 stride=1x1")), HasSubstr("number of axes"));
  EXPECT_THAT(
      import_error(window("1", "size=2000 pad=1999_0", "0", "  ROOT c = f32[] divide(a, b)"),
                   ErrorCode::kUnsupported),
      HasSubstr("more than 1024 elements"));
}

std::string select_and_scatter(std::string_view window, std::string_view source) {
  return module_of(fmt::format(R"(  x = f32[5] parameter(0)
  s = f32[{}] parameter(1)
  i = f32[] constant(0)
  ROOT r = f32[5] select-and-scatter(x, s, i), window={{{}}}, select=ge, scatter=f)",
                               source, window),
                   reducer("  ROOT c = f32[] add(a, b)") + R"(ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
})");
}

TEST(SelectAndScatter, GivesTheSourceToTheSelected) {
  const HostTensor x = floats({5}, {3, 1, 4, 4, 5});
  expect_values(run(select_and_scatter("size=2 stride=2", "2"), {x, floats({2}, {10, 20})}),
                {10, 0, 20, 0, 0});
  // Windows that overlap: 3 1 4, 1 4 4, 4 4 5.
  expect_values(run(select_and_scatter("size=3", "3"), {x, floats({3}, {10, 20, 40})}),
                {0, 0, 30, 0, 40});
}

TEST(SelectAndScatter, NeverSelectsPadding) {
  const HostTensor x = floats({5}, {-3, -1, -4, -4, -5});
  expect_values(
      run(select_and_scatter("size=2 stride=2 pad=1_0", "3"), {x, floats({3}, {10, 20, 40})}),
      {10, 20, 0, 40, 0});
}

}  // namespace
}  // namespace weft::hlo
