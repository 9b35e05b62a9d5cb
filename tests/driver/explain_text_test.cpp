#include "driver/explain/explain_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/compiler.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

/// `layers` products with a bias each, and a sum over the rows at the end.
std::string explain(int layers) {
  std::string text = "(x0: f32[16,32], w: f32[32,32]) {\n";
  for (int i = 0; i < layers; ++i) {
    text += "  p" + std::to_string(i) + " = dot_general x" + std::to_string(i) +
            ", w, lhs_contract={1}, rhs_contract={0} : f32[16,32]\n  x" + std::to_string(i + 1) +
            " = tanh p" + std::to_string(i) + " : f32[16,32]\n";
  }
  text +=
      "  y = reduce x" + std::to_string(layers) + ", axes={1}, combiner=sum : f32[16]\n} -> (y)";
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  CompileOptions options;
  options.planner = "greedy";
  options.stop_after = "plan";
  options.threads = 1;
  options.unroll = true;  // the layers share a weight
  const auto c = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(c.ok()) << c.error().message;
  return explain_text(explained(**c));
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(ExplainText, ShowsRepeatedLayersOnce) {
  const std::string text = explain(9);
  EXPECT_EQ(count(text, "compute contract"), 1) << text;
  EXPECT_EQ(count(text, "memory  rows"), 1) << text;
  EXPECT_EQ(count(text, "… 2 to 9: the same 8 more times"), 1) << text;
  EXPECT_EQ(count(text, "\n  10  memory"), 1) << text;
}

TEST(ExplainText, GroupsEdgesThatWereCutForLikeReasons) {
  const std::string text = explain(5);
  // Four between the products, and the one into the sum.
  EXPECT_EQ(count(text, "holds one reduction, not 2"), 1) << text;
  EXPECT_EQ(count(text, "5 edges: "), 1) << text;
}

TEST(ExplainText, ShowsKernelsThatDifferApart) {
  const std::string text = explain(1);
  EXPECT_EQ(count(text, "the same"), 0) << text;
  EXPECT_EQ(count(text, "compute contract"), 1) << text;
  EXPECT_EQ(count(text, "memory  rows"), 1) << text;
}

TEST(ExplainText, ProvesThatBlocksBehindABarrierAreResident) {
  // A depth shared by blocks, on 132 SMs.
  auto graph = parse_graph(R"((x: f16[16,4096], w: f16[4096,64]) {
    y = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f16[16,64]
  } -> (y))");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  CompileOptions options;
  options.stop_after = "plan";
  options.device = *find_target("h100-sxm");
  const auto c = compile_graph(std::move(*graph), options);
  ASSERT_TRUE(c.ok()) << c.error().message;
  const std::string text = explain_text(explained(**c));
  const auto number_behind = [&](const std::string& part) {
    const size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? -1 : std::stol(text.substr(at + part.size()));
  };
  const int64_t blocks = number_behind("grid barrier: "), sms = number_behind("blocks <= "),
                per_sm = number_behind("SMs x "), held = number_behind("an SM holds ");
  EXPECT_EQ(sms, 132);
  EXPECT_LE(blocks, sms * per_sm);
  EXPECT_GE(held, per_sm) << text;
  EXPECT_NE(text.find("depth over"), std::string::npos) << text;
  EXPECT_NE(text.find("templates: ["), std::string::npos) << text;
}

/// Two products of 16-bit floats with a softmax between. Matrix units take the rows in 16 bits; a
/// CPU multiplies float32 and rounds what is stored alone.
TEST(ExplainText, SaysWhatIsRoundedInsideAKernel) {
  const auto text_for = [](const char* target) {
    auto graph = parse_graph(R"((q: f16[4,64,32], k: f16[4,64,32], v: f16[4,64,32]) {
      a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f16[4,64,64]
      m = reduce a, axes={2}, combiner=max : f16[4,64]
      mb = broadcast m, dims={0,1} : f16[4,64,64]
      d = sub a, mb : f16[4,64,64]
      p = exp d : f16[4,64,64]
      y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f16[4,64,32]
    } -> (y))");
    EXPECT_TRUE(graph.ok()) << graph.error().message;
    CompileOptions options;
    options.stop_after = "plan";
    options.planner = "greedy";
    options.compositions = "leaf,block";
    options.planner_parameters = "gain=0";
    options.device = *find_target(target);
    const auto c = compile_graph(std::move(*graph), options);
    EXPECT_TRUE(c.ok()) << c.error().message;
    EXPECT_EQ((*c)->plan.kernels.size(), 1U) << target;
    return explain_text(explained(**c));
  };
  EXPECT_THAT(text_for("h100-sxm"),
              HasSubstr("rounding: stored in 16 bits y; 16 bits for a product p; float32 inside "));
  const std::string here = text_for("x86-64-v4");
  EXPECT_THAT(here, HasSubstr("rounding: stored in 16 bits y; float32 inside "));
  EXPECT_EQ(here.find("for a product"), std::string::npos) << here;
}

TEST(ExplainText, SaysNothingOfRoundingInFloat32) {
  auto graph = parse_graph(
      "(x: f32[16,64]) {\n  e = exp x : f32[16,64]\n  y = neg e : f32[16,64]\n} -> (y)");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  CompileOptions options;
  options.stop_after = "plan";
  const auto c = compile_graph(std::move(*graph), options);
  ASSERT_TRUE(c.ok()) << c.error().message;
  EXPECT_EQ(explain_text(explained(**c)).find("rounding"), std::string::npos);
}

}  // namespace
}  // namespace weft
