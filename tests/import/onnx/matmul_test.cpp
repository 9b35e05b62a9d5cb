#include "tests/import/onnx/operator_run.h"

namespace weft::onnx {
namespace {

TEST(MatMul, VectorsLoseTheirAxis) {
  OneNode node{"MatMul", {ramp({3}), ramp({3})}, {}, 13};
  expect_values(node.run_for({}), {14});
  node.inputs = {ramp({3}), ramp({2, 3, 2})};
  expect_values(node.run_for({2, 2}), {22, 28, 58, 64});
  node.inputs = {ramp({2, 3}), ramp({3})};
  expect_values(node.run_for({2}), {14, 32});
}

TEST(MatMul, SharedWeightIsOneProductWithoutBroadcast) {
  OneNode node{"MatMul", {ramp({5, 2, 3}), ramp({3, 4})}, {}, 13};
  EXPECT_EQ(node.text(), R"((x0: f32[5,2,3], x1: f32[3,4]) {
  y0 = dot_general x0, x1, lhs_batch={}, rhs_batch={}, lhs_contract={2}, rhs_contract={0} : f32[5,2,4]
} -> (y0))");
}

TEST(MatMul, BatchAxesBroadcast) {
  OneNode node{"MatMul", {ramp({2, 1, 1, 2}), ramp({1, 2, 2, 1})}, {}, 13};
  expect_values(node.run_for({2, 2, 1, 1}), {5, 11, 11, 25});
}

TEST(MatMul, DisagreeingShapesAreInvalid) {
  OneNode node{"MatMul", {ramp({2, 3}), ramp({4, 2})}, {}, 13};
  EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("MatMul"));
}

TEST(Gemm, TransposesByTheChoiceOfContractedAxes) {
  OneNode node{"Gemm",
               {ramp({3, 2}), ramp({4, 3}), ramp({4})},
               {int_attr("transA", 1), int_attr("transB", 1)}};
  EXPECT_EQ(node.text(), R"((x0: f32[3,2], x1: f32[4,3], x2: f32[4]) {
  v3 = dot_general x0, x1, lhs_batch={}, rhs_batch={}, lhs_contract={0}, rhs_contract={1} : f32[2,4]
  v4 = broadcast x2, dims={1} : f32[2,4]
  y0 = add v3, v4 : f32[2,4]
} -> (y0))");
}

TEST(Gemm, ScalesProductAndAddend) {
  OneNode node{"Gemm",
               {ramp({1, 2}), ramp({2, 2}), ramp({1, 2})},
               {float_attr("alpha", 0.5f), float_attr("beta", 2)}};
  expect_values(node.run_for({1, 2}), {5.5, 9});
}

TEST(Einsum, ContractsBatchesDiagonalsAndEllipses) {
  const auto einsum = [](const std::string& equation, std::vector<std::optional<HostTensor>> x) {
    return OneNode{"Einsum", std::move(x), {string_attr("equation", equation)}, 13}.run()[0];
  };
  EXPECT_THAT(values_of(einsum("iij,jk->ik", {ramp({2, 2, 3}), ramp({3, 2})})),
              testing::ElementsAre(22, 28, 103, 136));
  EXPECT_THAT(values_of(einsum("ii", {ramp({3, 3})})), testing::ElementsAre(15));
  EXPECT_THAT(values_of(einsum("b...i,b...i->b", {ramp({2, 2, 2}), ramp({2, 2, 2})})),
              testing::ElementsAre(30, 174));
  EXPECT_THAT(values_of(einsum("ij,jk,kl->li", {ramp({1, 2}), ramp({2, 2}), ramp({2, 1})})),
              testing::ElementsAre(27));
  HostTensor outer = einsum("...i,...j->...ij", {ramp({2, 2}), ramp({1, 3})});
  EXPECT_EQ(outer.shape(), (Shape{2, 2, 3}));
  EXPECT_THAT(values_of(outer), testing::ElementsAre(1, 2, 3, 2, 4, 6, 3, 6, 9, 4, 8, 12));
}

TEST(Einsum, ImplicitResultIsSorted) {
  OneNode node{"Einsum", {ramp({2, 3}), ramp({3, 2})}, {string_attr("equation", "ba, ac")}, 13};
  expect_values(node.run_for({2, 2}), {22, 28, 49, 64});
}

TEST(Einsum, NonsenseIsInvalid) {
  for (const char* equation : {"ij->ik", "ij->ii", "i->i", "ij,jk->ik", "i.j->ij", "ij..->ij"}) {
    OneNode node{"Einsum", {ramp({2, 2})}, {string_attr("equation", equation)}, 13};
    EXPECT_THAT(node.refusal(ErrorCode::kInvalidInput), testing::HasSubstr("Einsum")) << equation;
  }
}

}  // namespace
}  // namespace weft::onnx
