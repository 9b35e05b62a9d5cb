#include <fmt/format.h>

#include "tests/import/hlo/importing.h"

namespace weft::hlo {
namespace {

using ::testing::HasSubstr;

TEST(Call, StandsInPlace) {
  EXPECT_EQ(import_text(module_of(R"(  x = f32[3] parameter(0)
  c = (f32[3], f32[3]) call(x), to_apply=twice
  a = f32[3] get-tuple-element(c), index=1
  ROOT f = f32[3] fusion(a), kind=kLoop, calls=%minus)",
                                  R"(twice {
  a = f32[3] parameter(0)
  b = f32[3] add(a, a)
  ROOT t = (f32[3], f32[3]) tuple(a, b)
}
minus {
  a = f32[3] parameter(0)
  ROOT b = f32[3] negate(a)
})")),
            R"((arg0: f32[3]) {
  b = add arg0, arg0 : f32[3]
  out0 = neg b : f32[3]
} -> (out0)
)");
}

TEST(Call, MustStandBehindWhatItCalls) {
  EXPECT_THAT(import_error(R"(HloModule m
f {
  x = f32[] parameter(0)
  ROOT y = f32[] call(x), to_apply=f
}
ENTRY main {
  x = f32[] parameter(0)
  ROOT y = f32[] call(x), to_apply=f
})"),
              HasSubstr("line 4, column 3: call 'y': computation 'f' does not stand before"));
  EXPECT_THAT(import_error(module_of("  x = f32[] parameter(0)\n  y = f32[] call(x), to_apply=g")),
              HasSubstr("no computation 'g'"));
  EXPECT_THAT(
      import_error(module_of("  x = f32[] parameter(0)\n  y = f32[] call(x), to_apply=add", kAdd)),
      HasSubstr("takes 2 parameters and is given 1"));
}

TEST(Call, MayNotMultiplyBeyondTheModulesSize) {
  std::string text = "HloModule m\nf0 {\n  x = f32[] parameter(0)\n  ROOT y = f32[] negate(x)\n}\n";
  for (int i = 1; i < 40; ++i) {
    text += fmt::format(
        "f{} {{\n  x = f32[] parameter(0)\n  y = f32[] call(x), to_apply=f{}\n  ROOT z = f32[] "
        "call(y), to_apply=f{}\n}}\n",
        i, i - 1, i - 1);
  }
  text += "ENTRY main {\n  x = f32[] parameter(0)\n  ROOT y = f32[] call(x), to_apply=f39\n}\n";
  EXPECT_THAT(import_error(text), HasSubstr("too many instructions"));
}

constexpr std::string_view kBranches = R"(double {
  a = f32[2] parameter(0)
  ROOT b = f32[2] add(a, a)
}
minus {
  a = f32[2] parameter(0)
  ROOT b = f32[2] negate(a)
}
square {
  a = f32[2] parameter(0)
  ROOT b = f32[2] multiply(a, a)
}
)";

TEST(Conditional, ChoosesByTruthOrNumber) {
  const std::string by_truth = module_of(R"(  p = pred[] parameter(0)
  x = f32[2] parameter(1)
  ROOT r = f32[2] conditional(p, x, x), true_computation=double, false_computation=minus)",
                                         kBranches);
  const HostTensor x = floats({2}, {3, 5});
  expect_values(run(by_truth, {tensor_of(DType::kBool, {}, {1}), x}), {6, 10});
  expect_values(run(by_truth, {tensor_of(DType::kBool, {}, {0}), x}), {-3, -5});
  const std::string by_number = module_of(R"(  i = s32[] parameter(0)
  x = f32[2] parameter(1)
  ROOT r = f32[2] conditional(i, x, x, x), branch_computations={double, %minus, square})",
                                          kBranches);
  expect_values(run(by_number, {ints({}, {0}), x}), {6, 10});
  expect_values(run(by_number, {ints({}, {1}), x}), {-3, -5});
  expect_values(run(by_number, {ints({}, {2}), x}), {9, 25});
  expect_values(run(by_number, {ints({}, {-1}), x}), {9, 25});
}

/// A loop over (i, a, …): i from `first` while `condition`, the body's other instructions given.
std::string loop(std::string_view shape, std::string_view body, std::string_view init,
                 std::string_view parameters, std::string_view result,
                 std::string_view limit = "5") {
  return module_of(fmt::format(R"({}
  first = s32[] constant(1)
  t = {} tuple(first, {})
  w = {} while(t), condition=cond, body=body
  ROOT r = {})",
                               parameters, shape, init, shape, result),
                   fmt::format(R"(body {{
  p = {} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  zero = s32[] constant(0)
  n = s32[] add(i, one)
{}
}}
cond {{
  p = {} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant({})
  ROOT c = pred[] compare(i, l), direction=LT
}})",
                               shape, body, shape, limit));
}

TEST(While, WithAKnownCountIsAScan) {
  const std::string text =
      loop("(s32[], f32[])", R"(  a = f32[] get-tuple-element(p), index=1
  f = f32[] convert(i)
  b = f32[] add(a, f)
  ROOT r = (s32[], f32[]) tuple(n, b))",
           "x", "  x = f32[] parameter(0)", "f32[] get-tuple-element(w), index=1");
  EXPECT_THAT(import_text(text), HasSubstr("scan"));
  EXPECT_THAT(import_text(text), Not(HasSubstr("while")));
  expect_values(run(text, {floats({}, {100})}), {110});
}

TEST(While, GivesItsLastCounter) {
  const std::string text =
      loop("(s32[], f32[])", R"(  a = f32[] get-tuple-element(p), index=1
  ROOT r = (s32[], f32[]) tuple(n, a))",
           "x", "  x = f32[] parameter(0)", "s32[] get-tuple-element(w), index=0");
  expect_values(run(text, {floats({}, {100})}), {5});
}

/// y[i] = x[i] * w with rows 1 to 4 of five, the row of x from the other end where `reversed`.
std::string row_loop(std::string_view index) {
  return loop("(s32[], f32[5,2], f32[5,2], f32[2])",
              fmt::format(R"(  y = f32[5,2] get-tuple-element(p), index=1
  x = f32[5,2] get-tuple-element(p), index=2
  w = f32[2] get-tuple-element(p), index=3
  five = s32[] constant(5)
  back = s32[] subtract(five, i)
  wrapped = s32[] add(i, five)
  negative = pred[] compare(i, zero), direction=LT
  safe = s32[] select(negative, wrapped, i)
  row = f32[1,2] dynamic-slice(x, {}, zero), dynamic_slice_sizes={{1,2}}
  flat = f32[2] reshape(row)
  product = f32[2] multiply(flat, w)
  out = f32[1,2] reshape(product)
  z = f32[5,2] dynamic-update-slice(y, out, safe, zero)
  ROOT r = (s32[], f32[5,2], f32[5,2], f32[2]) tuple(n, z, x, w))",
                          index),
              "y0, x0, w0",
              "  y0 = f32[5,2] parameter(0)\n  x0 = f32[5,2] parameter(1)\n  w0 = f32[2] "
              "parameter(2)",
              "f32[5,2] get-tuple-element(w), index=1");
}

const HostTensor kOnes = floats({5, 2}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
const HostTensor kRows = floats({5, 2}, {0, 1, 10, 11, 20, 21, 30, 31, 40, 41});

TEST(While, ScansAndStacksRows) {
  const std::string text = row_loop("i");
  // The rows come in as slices and go out as slices; the first row stays.
  EXPECT_THAT(import_text(text), HasSubstr("x_reverse={false}, y_reverse={false}"));
  EXPECT_THAT(import_text(text), Not(HasSubstr("gather")));
  expect_values(run(text, {kOnes, kRows, floats({2}, {1, 2})}),
                {1, 1, 10, 22, 20, 42, 30, 62, 40, 82});
}

TEST(While, ScansRowsFromTheOtherEnd) {
  const std::string text = row_loop("back");
  EXPECT_THAT(import_text(text), HasSubstr("x_reverse={true}, y_reverse={false}"));
  expect_values(run(text, {kOnes, kRows, floats({2}, {1, 2})}),
                {1, 1, 40, 82, 30, 62, 20, 42, 10, 22});
}

TEST(While, CarriesAnArrayThatIsReadAcrossRows) {
  // y[i] = y[i - 1] + y[i]
  const std::string text =
      loop("(s32[], f32[5])", R"(  y = f32[5] get-tuple-element(p), index=1
  before = s32[] subtract(i, one)
  a = f32[1] dynamic-slice(y, before), dynamic_slice_sizes={1}
  b = f32[1] dynamic-slice(y, i), dynamic_slice_sizes={1}
  c = f32[1] add(a, b)
  z = f32[5] dynamic-update-slice(y, c, i)
  ROOT r = (s32[], f32[5]) tuple(n, z))",
           "y0", "  y0 = f32[5] parameter(0)", "f32[5] get-tuple-element(w), index=1");
  expect_values(run(text, {floats({5}, {1, 2, 3, 4, 5})}), {1, 3, 6, 10, 15});
}

/// As TensorFlow writes them: lists are arrays with a size that grows or shrinks, the body is a
/// call, and the condition bounds two counters. Pushes (x[i] * w) for i = 0 to 3, and pops stacked
/// rows from `rows`, adding what it pops to a sum.
std::string list_loop(std::string_view condition) {
  constexpr std::string_view kState =
      "(s32[], s32[], s32[], f32[2], (f32[4,2], s32[]), (f32[4,2], s32[]))";
  return module_of(fmt::format(R"(  w = f32[2] parameter(0)
  rows = f32[4,2] parameter(1)
  zero = s32[] constant(0)
  four = s32[] constant(4)
  none = f32[] constant(0)
  empty = f32[4,2] broadcast(none), dimensions={{}}
  full = (f32[4,2], s32[]) tuple(rows, four)
  list = (f32[4,2], s32[]) tuple(empty, zero)
  t = {0} tuple(zero, four, zero, w, list, full)
  l = {0} while(t), condition=cond, body=outer
  pushed = (f32[4,2], s32[]) get-tuple-element(l), index=4
  popped = (f32[4,2], s32[]) get-tuple-element(l), index=5
  array = f32[4,2] get-tuple-element(pushed), index=0
  size = s32[] get-tuple-element(popped), index=1
  ROOT r = (f32[4,2], s32[]) tuple(array, size))",
                               kState),
                   fmt::format(R"(step {{
  p = {0} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  time = s32[] get-tuple-element(p), index=2
  w = f32[2] get-tuple-element(p), index=3
  list = (f32[4,2], s32[]) get-tuple-element(p), index=4
  full = (f32[4,2], s32[]) get-tuple-element(p), index=5
  one = s32[] constant(1)
  zero = s32[] constant(0)
  rows = f32[4,2] get-tuple-element(full), index=0
  left = s32[] get-tuple-element(full), index=1
  last = s32[] subtract(left, one)
  row = f32[1,2] dynamic-slice(rows, last, zero), dynamic_slice_sizes={{1,2}}
  flat = f32[2] reshape(row)
  product = f32[2] multiply(flat, w)
  out = f32[1,2] reshape(product)
  array = f32[4,2] get-tuple-element(list), index=0
  size = s32[] get-tuple-element(list), index=1
  pushed = f32[4,2] dynamic-update-slice(array, out, size, zero)
  grown = s32[] add(size, one)
  i1 = s32[] add(i, one)
  time1 = s32[] add(one, time)
  list1 = (f32[4,2], s32[]) tuple(pushed, grown)
  full1 = (f32[4,2], s32[]) tuple(rows, last)
  ROOT r = {0} tuple(i1, n, time1, w, list1, full1)
}}
outer {{
  p = {0} parameter(0)
  ROOT c = {0} call(p), to_apply=step
}}
cond {{
  p = {0} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  time = s32[] get-tuple-element(p), index=2
  four = s32[] constant(4)
  a = pred[] compare(i, n), direction=LT
  b = pred[] compare(time, four), direction=LT
  {1}
}})",
                               kState, condition));
}

TEST(While, StacksWhatListsAreGiven) {
  const std::string text = list_loop("ROOT c = pred[] and(a, b)");
  const std::string graph = import_text(text);
  EXPECT_THAT(graph, HasSubstr("x_reverse={true}, y_reverse={false}"));
  EXPECT_THAT(graph, Not(HasSubstr("while")));
  EXPECT_THAT(graph, Not(HasSubstr("carry_count=1")));
  const HostTensor rows = floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto values = run_all(text, {floats({2}, {1, 10}), rows});
  ASSERT_EQ(values.size(), 2U);
  expect_values(values[0], {7, 80, 5, 60, 3, 40, 1, 20});
  expect_values(values[1], {0});
}

TEST(While, RunsWhileItsConditionHoldsWhereThatIsNoBound) {
  const std::string text = list_loop("ROOT c = pred[] or(a, b)");
  EXPECT_THAT(import_text(text), HasSubstr("while"));
  const HostTensor rows = floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto values = run_all(text, {floats({2}, {1, 10}), rows});
  ASSERT_EQ(values.size(), 2U);
  expect_values(values[0], {7, 80, 5, 60, 3, 40, 1, 20});
}

TEST(While, EndsAtTheFirstOfItsBounds) {
  const std::string text = list_loop(R"(two = s32[] constant(2)
  d = pred[] compare(two, i), direction=GT
  ab = pred[] and(a, b)
  ROOT c = pred[] and(ab, d))");
  EXPECT_THAT(import_text(text), Not(HasSubstr("while")));
  const HostTensor rows = floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto values = run_all(text, {floats({2}, {1, 10}), rows});
  ASSERT_EQ(values.size(), 2U);
  expect_values(values[0], {7, 80, 5, 60, 0, 0, 0, 0});
  expect_values(values[1], {2});
}

TEST(While, UpdatesRowsInPlace) {
  // y[i] = 2 y[i], of which each row is read before it is written.
  const std::string text =
      loop("(s32[], f32[5])", R"(  y = f32[5] get-tuple-element(p), index=1
  b = f32[1] dynamic-slice(y, i), dynamic_slice_sizes={1}
  c = f32[1] add(b, b)
  z = f32[5] dynamic-update-slice(y, c, i)
  ROOT r = (s32[], f32[5]) tuple(n, z))",
           "y0", "  y0 = f32[5] parameter(0)", "f32[5] get-tuple-element(w), index=1");
  EXPECT_THAT(import_text(text), HasSubstr("carry_count=0"));
  expect_values(run(text, {floats({5}, {1, 2, 3, 4, 5})}), {1, 4, 6, 8, 10});
}

TEST(While, ThatNeverRunsGivesWhatItGets) {
  const std::string text =
      loop("(s32[], f32[])", R"(  a = f32[] get-tuple-element(p), index=1
  b = f32[] add(a, a)
  ROOT r = (s32[], f32[]) tuple(n, b))",
           "x", "  x = f32[] parameter(0)", "f32[] get-tuple-element(w), index=1", "-3");
  expect_values(run(text, {floats({}, {7})}), {7});
  EXPECT_THAT(import_text(text), Not(HasSubstr("scan")));
}

TEST(While, LooksAtIndicesForALimitedTime) {
  std::string doubled;
  for (int i = 1; i <= 40; ++i) {
    doubled +=
        fmt::format("  i{} = s32[] add({}, {})\n", i, i == 1 ? "i" : fmt::format("i{}", i - 1),
                    i == 1 ? "i" : fmt::format("i{}", i - 1));
  }
  const std::string text =
      loop("(s32[], f32[5])",
           "  y = f32[5] get-tuple-element(p), index=1\n" + doubled +
               R"(  b = f32[1] dynamic-slice(y, i40), dynamic_slice_sizes={1}
  z = f32[5] dynamic-update-slice(y, b, i)
  ROOT r = (s32[], f32[5]) tuple(n, z))",
           "y0", "  y0 = f32[5] parameter(0)", "f32[5] get-tuple-element(w), index=1");
  // The index wraps to 0.
  expect_values(run(text, {floats({5}, {1, 2, 3, 4, 5})}), {1, 1, 1, 1, 1});
}

TEST(While, WithoutAKnownCountRunsWhileItsConditionHolds) {
  const std::string text = module_of(R"(  x = f32[] parameter(0)
  k = f32[] parameter(1)
  t = (f32[], f32[]) tuple(x, k)
  w = (f32[], f32[]) while(t), condition=cond, body=body
  ROOT r = f32[] get-tuple-element(w), index=0)",
                                     R"(body {
  p = (f32[], f32[]) parameter(0)
  a = f32[] get-tuple-element(p), index=0
  k = f32[] get-tuple-element(p), index=1
  b = f32[] multiply(a, k)
  ROOT r = (f32[], f32[]) tuple(b, k)
}
cond {
  p = (f32[], f32[]) parameter(0)
  a = f32[] get-tuple-element(p), index=0
  l = f32[] constant(100)
  ROOT c = pred[] compare(a, l), direction=LT
})");
  EXPECT_THAT(import_text(text), HasSubstr("while"));
  expect_values(run(text, {floats({}, {3}), floats({}, {4})}), {192});
  expect_values(run(text, {floats({}, {300}), floats({}, {4})}), {300});
}

TEST(While, RefusesWhatDoesNotFit) {
  const auto error = [](std::string_view body) {
    return import_error(loop("(s32[], f32[])", body, "x", "  x = f32[] parameter(0)",
                             "f32[] get-tuple-element(w), index=1"));
  };
  EXPECT_THAT(error("  ROOT r = (s32[], s32[]) tuple(n, i)"), HasSubstr("while 'w'"));
  EXPECT_THAT(error("  ROOT r = s32[] add(n, i)"), HasSubstr("while 'w'"));
}

}  // namespace
}  // namespace weft::hlo
