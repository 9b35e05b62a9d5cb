#include <fmt/format.h>
#include <gtest/gtest.h>

#include "driver/compiler.h"
#include "driver/session.h"
#include "interp/interpreter.h"
#include "tests/tile/program_cases.h"

namespace weft {
namespace {

constexpr int64_t kRows = 45, kColumns = 48;

/// A panel of a single vector outgrows the second cache.
int64_t depth() { return host_cpu_target(1).l2_bytes / 64 * 3 / 2 + 3; }

class DeepProduct : public testing::TestWithParam<int> {};

TEST_P(DeepProduct, IsMadeInPartsOfTheSum) {
  const std::string text = fmt::format(R"((x: f32[{0},{1}], w: f32[{1},{2}], b: f32[{2}]) {{
  p = dot_general x, w, lhs_contract={{1}}, rhs_contract={{0}} : f32[{0},{2}]
  d = broadcast b, dims={{1}} : f32[{0},{2}]
  y = add p, d : f32[{0},{2}]
}} -> (y))",
                                       kRows, depth(), kColumns);
  CompileOptions options;
  options.threads = GetParam();
  options.verify = true;
  auto graph = parse_graph(text);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  std::vector<HostTensor> inputs = {tile_test::random_tensor(DType::kF32, {kRows, depth()}, 1),
                                    tile_test::random_tensor(DType::kF32, {depth(), kColumns}, 2),
                                    tile_test::random_tensor(DType::kF32, {kColumns}, 3)};
  auto expected = interpret(*graph, inputs);
  ASSERT_TRUE(expected.ok());
  auto compiled = compile_graph(std::move(*graph), options);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  ASSERT_EQ((*compiled)->plan.kernels.size(), 1U);
  const std::string made = (*compiled)->plan.kernels[0].schedule.schedule_template;
  EXPECT_NE(made.find("in parts of the sum"), std::string::npos) << made;
  auto session = Session::create(std::move((*compiled)->program), GetParam());
  ASSERT_TRUE(session.ok());
  auto outputs = (*session)->run(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  const HostTensor &y = (*outputs)[0], &e = (*expected)[0];
  ASSERT_EQ(y.size(), e.size());
  double most = 0, scale = 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    most = std::max(most, std::abs(y.at_double(i) - e.at_double(i)));
    scale = std::max(scale, std::abs(e.at_double(i)));
  }
  EXPECT_GT(scale, 1);
  EXPECT_LT(most, 1e-5 * scale);
}

INSTANTIATE_TEST_SUITE_P(Threads, DeepProduct, testing::Values(1, 2));

}  // namespace
}  // namespace weft
