#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

TEST(TopK, GivesValuesAndIndices) {
  OneNode node{
      "TopK", {f32_tensor({1, 4}, {3, 7, 7, 1}), i64_tensor({1}, {2})}, {}, 11, {true, true}};
  expect_values(node.run_for({1, 2}), {7, 7});
  expect_values(node.run_for({1, 2}, 1), {1, 2});
  node.attributes = {int_attr("largest", 0)};
  expect_values(node.run_for({1, 2}, 1), {3, 0});
  node.inputs[1] = i64_tensor({1}, {5});
  node.constants = {1};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("k is out of range"));
}

TEST(OneHot, WrapsNegativeIndicesAndDropsOthers) {
  OneNode node{"OneHot",
               {i64_tensor({3}, {1, -1, 9}), i64_tensor({}, {3}), f32_tensor({2}, {5, 8})},
               {},
               11};
  expect_values(node.run_for({3, 3}), {5, 8, 5, 5, 5, 8, 5, 5, 5});
  node.attributes = {int_attr("axis", 0)};
  expect_values(node.run_for({3, 3}), {5, 5, 5, 8, 5, 5, 5, 8, 5});
}

TEST(Trilu, TakesADiagonalThatIsNotKnown) {
  OneNode node{"Trilu", {ramp({2, 3}), i64_tensor({}, {1})}, {}, 14};
  EXPECT_THAT(node.text(), testing::HasSubstr("select"));
  expect_values(node.run_for({2, 3}), {0, 2, 3, 0, 0, 6});
  node.attributes = {int_attr("upper", 0)};
  expect_values(node.run_for({2, 3}), {1, 2, 0, 4, 5, 6});
}

TEST(DepthToSpace, OrdersBlocksBothWays) {
  OneNode node{"DepthToSpace", {ramp({1, 8, 1, 1})}, {int_attr("blocksize", 2)}, 13};
  expect_values(node.run_for({1, 2, 2, 2}), {1, 3, 5, 7, 2, 4, 6, 8});
  node.attributes.push_back(string_attr("mode", "CRD"));
  expect_values(node.run_for({1, 2, 2, 2}), {1, 2, 3, 4, 5, 6, 7, 8});
  OneNode back{"SpaceToDepth", {ramp({1, 2, 2, 2})}, {int_attr("blocksize", 2)}, 13};
  expect_values(back.run_for({1, 8, 1, 1}), {1, 5, 2, 6, 3, 7, 4, 8});
}

TEST(ReverseSequence, TurnsOnlyTheFirstSteps) {
  OneNode node{"ReverseSequence", {ramp({3, 2}), i64_tensor({2}, {2, 3})}, {}, 10};
  expect_values(node.run_for({3, 2}), {3, 6, 1, 4, 5, 2});
}

TEST(Determinant, ExchangesRowsWhereThePivotIsZero) {
  OneNode node{
      "Det", {f32_tensor({4, 4}, {0, 1, 2, 3, 1, 0, 3, 1, 2, 3, 0, 1, 5, 1, 2, 0})}, {}, 11};
  expect_values(node.run_for({}), {54}, 1e-5);
  node.inputs = {f32_tensor({1, 3, 3}, {2, 0, 1, 1, 3, 2, 1, 1, 4})};
  expect_values(node.run_for({1}), {18});
  node.inputs = {f32_tensor({4, 4}, {1, 2, 3, 4, 2, 4, 6, 8, 1, 0, 0, 1, 0, 1, 1, 0})};
  expect_values(node.run_for({}), {0});
}

TEST(DataDependent, ComputesWhatTheCallerGave) {
  OneNode compress{"Compress",
                   {ramp({3, 2}), tensor_of<int>(DType::kBool, {3}, {0, 1, 1})},
                   {int_attr("axis", 0)},
                   11};
  expect_values(compress.run_for({2, 2}), {3, 4, 5, 6});
  OneNode non_zero{"NonZero", {f32_tensor({2, 2}, {0, 3, 5, 0})}, {}, 13};
  expect_values(non_zero.run_for({2, 2}), {0, 1, 1, 0});
  EXPECT_THAT(non_zero.refusal(), testing::HasSubstr("x0"));
}

TEST(Unique, SortsOrKeepsTheOrder) {
  OneNode node{"Unique", {f32_tensor({5}, {2, 1, 1, 3, 2})}, {}, 11, {true, true, true, true}};
  expect_values(node.run_for({3}), {1, 2, 3});
  expect_values(node.run_for({3}, 1), {1, 0, 3});
  expect_values(node.run_for({5}, 2), {1, 0, 0, 2, 1});
  expect_values(node.run_for({3}, 3), {2, 2, 1});
  node.attributes = {int_attr("sorted", 0)};
  expect_values(node.run_for({3}), {2, 1, 3});
  node.inputs = {f32_tensor({3, 2}, {1, 0, 0, 5, 1, 0})};
  node.attributes = {int_attr("axis", 0)};
  expect_values(node.run_for({2, 2}), {0, 5, 1, 0});
}

TEST(NonZero, FollowsFromAConvolutionOfKnownInputs) {
  const HostTensor x = ramp({1, 3, 32, 32}, -1000, 1), w = ramp({16, 3, 3, 3}, 0, 0);
  TestModel model;
  model.opset(13).input("x", DType::kF32, {1, 3, 32, 32}).initializer("w", w);
  model.node({"Conv", {"x", "w"}, {"c"}});
  model.node({"NonZero", {"c"}, {"y"}}).output("y", DType::kI64);
  // Weights of zero: no element is another number.
  const std::vector<HostTensor> results = run_model(model.model(), {{"x", x}});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].shape(), (Shape{4, 0}));
}

TEST(NonMaxSuppression, DropsOverlappingBoxes) {
  OneNode node{"NonMaxSuppression",
               {f32_tensor({1, 3, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 10, 1, 11}),
                f32_tensor({1, 1, 3}, {0.9f, 0.75f, 0.6f}), i64_tensor({1}, {3}),
                f32_tensor({1}, {0.5f}), f32_tensor({1}, {0.1f})},
               {},
               11};
  expect_values(node.run_for({2, 3}), {0, 0, 0, 0, 0, 2});
}

TEST(Loss, IgnoresAClassInSumAndWeight) {
  OneNode node{"NegativeLogLikelihoodLoss",
               {f32_tensor({3, 2}, {-1, -2, -3, -4, -5, -6}), i64_tensor({3}, {0, 1, -1}),
                f32_tensor({2}, {1, 3})},
               {int_attr("ignore_index", -1)},
               13};
  expect_values(node.run_for({}), {(1.0 + 3 * 4) / 4});
  node.attributes.push_back(string_attr("reduction", "none"));
  expect_values(node.run_for({3}), {1, 12, 0});
}

TEST(Loss, GivesLogProbabilities) {
  OneNode node{"SoftmaxCrossEntropyLoss",
               {f32_tensor({2, 3}, {1, 2, 3, 1, 5, 2}), i64_tensor({2}, {2, 0}),
                f32_tensor({3}, {0.5f, 1, 2})},
               {},
               13,
               {true, true}};
  expect_values(node.run_for({}), {1.1392616});
  expect_values(node.run_for({2, 3}, 1),
                {-2.4076059, -1.4076059, -0.40760595, -4.0658841, -0.065883912, -3.0658839});
}

TEST(NgramCounts, CountsPairsAtEachDistance) {
  OneNode node{
      "TfIdfVectorizer",
      {tensor_of<int>(DType::kI32, {5}, {1, 2, 2, 1, 2})},
      {string_attr("mode", "TF"), int_attr("min_gram_length", 1), int_attr("max_gram_length", 2),
       int_attr("max_skip_count", 1), ints_attr("ngram_counts", {0, 1}),
       ints_attr("ngram_indexes", {2, 0}), ints_attr("pool_int64s", {2, 1, 2})},
      9};
  // (1, 2) occurs twice side by side and once two apart.
  expect_values(node.run_for({3}), {3, 0, 3});
}

}  // namespace
}  // namespace weft::onnx
