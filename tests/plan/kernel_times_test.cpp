#include "plan/kernel_times.h"

#include <gtest/gtest.h>

#include "cost/gpu_latency.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

constexpr const char* kRows = R"((x: f32[4096,1024]) {
  a = exp x : f32[4096,1024]
  s = reduce a, axes={1}, combiner=sum : f32[4096]
  b = broadcast s, dims={0} : f32[4096,1024]
  y = div a, b : f32[4096,1024]
} -> (y))";

/// What the last choice of `dp` compares (FusionStitching 2021 §5.3): the evaluator `latency` of
/// the kernel that the group becomes, on a GPU that of its tile program.
TEST(KernelTimes, LatencyIsThatOfTheTileProgram) {
  const TensorProgram program = expressed(kRows);
  const Target gpu = *find_target("a100-40gb");
  GroupAnswers answers;
  KnownGroups known(program, gpu, answers);
  KernelTimes times(program, gpu, known);
  const Group group = whole_group(program);
  auto kernel = schedule_leaf(program, group, gpu, "k");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const int64_t bytes = kernel->estimate.bytes_read + kernel->estimate.bytes_written;
  const double us = gpu_latency(kernel->program, kernel->scopes, bytes, gpu).microseconds;
  EXPECT_DOUBLE_EQ(times.latency(group), us);
  EXPECT_DOUBLE_EQ(times.latency(group), us) << "asked again";
  EXPECT_DOUBLE_EQ(kernel->estimate.microseconds, us);
}

TEST(KernelTimes, ProductsOfAGpuHaveAModelOfTheirOwn) {
  const TensorProgram product = expressed(R"((x: f32[512,256], w: f32[256,128]) {
  y = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[512,128]
} -> (y))");
  const Target gpu = *find_target("a100-40gb");
  GroupAnswers answers;
  KnownGroups known(product, gpu, answers);
  KernelTimes times(product, gpu, known);
  const Group group = whole_group(product);
  const auto us = predicted_product_us(product, group, gpu);
  ASSERT_TRUE(us);
  EXPECT_DOUBLE_EQ(times.latency(group), *us);
}

/// Pixels that a table picks lie with their channels innermost, the output without: rows of it are
/// 64 KB apart. One kernel would save a tensor's way to memory, and store lane by lane to lines
/// that push each other out.
TEST(KernelTimes, ResultsStoredFarApartDoNotJoinACopy) {
  TensorProgram program = expressed(R"((x: f32[1,32,128,64], i: i64[128]) {
  g = gather x, i, axis=3, batch_dims=0 : f32[1,32,128,128]
  h = mul g, g : f32[1,32,128,128]
  y = tanh h : f32[1,32,128,128]
} -> (y))");
  const Target cpu = *find_target("x86-64-v4");
  for (Tensor& t : program.tensors) {
    if (t.kind != Tensor::Kind::kIntermediate || t.is_output || t.type.shape.size() != 4) continue;
    t.layout = permuted_layout(t.type.shape, {0, 2, 3, 1});
  }
  GroupAnswers answers;
  KnownGroups known(program, cpu, answers);
  KernelTimes times(program, cpu, known);
  const auto group_of = [&](std::vector<ExprId> exprs) {
    Group group;
    group.outputs = {program.exprs[static_cast<size_t>(exprs.back())].output};
    group.exprs = std::move(exprs);
    return group;
  };
  ASSERT_EQ(program.exprs.size(), 2u);
  const Group parts[] = {group_of({0}), group_of({1})};
  EXPECT_LT(times.saved(parts, whole_group(program)).microseconds, 0);
}

}  // namespace
}  // namespace weft
