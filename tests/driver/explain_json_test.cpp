#include "driver/explain/explain_json.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "driver/compiler.h"

namespace weft {
namespace {

std::unique_ptr<Compilation> compile(const char* text, bool compute_as_calls = false) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  CompileOptions options;
  options.planner = "greedy";
  options.threads = 1;
  options.compute_as_calls = compute_as_calls;
  auto c = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(c.ok()) << c.error().message;
  return std::move(*c);
}

TEST(ExplainJson, ListsKernelsAndEdges) {
  const auto c = compile(R"(
(x: f32[16,32], w: f32[32,8]) {
  p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[16,8]
  t = tanh p : f32[16,8]
  y = reduce t, axes={1}, combiner=sum : f32[16]
} -> (y))");
  const auto j = nlohmann::json::parse(explain_json(explained(*c)));
  EXPECT_EQ(j["compute_kernels"], 1);
  EXPECT_EQ(j["memory_kernels"], 1);
  ASSERT_EQ(j["kernels"].size(), 2U);
  EXPECT_EQ(j["kernels"][0]["kind"], "compute");
  EXPECT_EQ(j["kernels"][0]["bytes_read"], (16 * 32 + 32 * 8) * 4);
  EXPECT_EQ(j["kernels"][0]["bytes_written"], 16 * 8 * 4);
  // Each tile of rows asks for all weights.
  EXPECT_GT(j["kernels"][0]["bytes_requested"], (16 * 32 + 32 * 8 + 16 * 8) * 4);
  EXPECT_EQ(j["kernels"][0]["times"], 1);
  ASSERT_EQ(j["edges"].size(), 2U);
  EXPECT_EQ(j["edges"][0]["verdict"], "fused");
  EXPECT_EQ(j["edges"][1]["verdict"], "illegal");
  EXPECT_FALSE(j["edges"][1]["reason"].get<std::string>().empty());
}

/// FusionStitching 2019 §6.4: a product wins over what is reduced, and that over the rest.
TEST(ExplainJson, CountsPatterns) {
  const auto c = compile(R"(
(x: f32[16,32], w: f32[32,8], v: f32[64]) {
  p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[16,8]
  t = tanh p : f32[16,8]
  y = reduce t, axes={1}, combiner=sum : f32[16]
  z = exp v : f32[64]
} -> (y, z))");
  const auto j = nlohmann::json::parse(explain_json(explained(*c)));
  EXPECT_EQ(j["patterns"]["gemm"], 1);
  EXPECT_EQ(j["patterns"]["reduction"], 1);
  EXPECT_EQ(j["patterns"]["elementwise"], 1);
  std::map<std::string, std::string> pattern_of;
  for (const auto& kernel : j["kernels"]) pattern_of[kernel["name"]] = kernel["pattern"];
  EXPECT_EQ(pattern_of.size(), 3U);
  EXPECT_EQ(pattern_of["k0_t"], "gemm");
}

/// What a block's memory is asked for and has, and what lives at once.
TEST(ExplainJson, TellsHowWellArenasAreShared) {
  const auto c = compile(R"(
(x: f32[64,4096]) {
  e = exp x : f32[64,4096]
  s = reduce e, axes={1}, combiner=sum : f32[64]
  b = broadcast s, dims={0} : f32[64,4096]
  y = div e, b : f32[64,4096]
} -> (y))");
  const auto j = nlohmann::json::parse(explain_json(explained(*c)));
  const auto& kernel = j["kernels"][0];
  EXPECT_GT(kernel["shared_bytes"], 0);
  EXPECT_GE(kernel["shared_bytes_requested"], kernel["shared_bytes"]);
  EXPECT_LE(kernel["shared_bytes_least"], kernel["shared_bytes"]);
  EXPECT_EQ(j["shared_memory"]["kernels"], 1);
  EXPECT_EQ(j["shared_memory"]["most_bytes"], kernel["shared_bytes"]);
}

TEST(ExplainJson, CountsProductsAsCalls) {
  const auto c = compile(R"(
(x: f32[16,32], w: f32[32,8], u: f32[32,8]) {
  p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[16,8]
  q = dot_general x, u, lhs_contract={1}, rhs_contract={0} : f32[16,8]
  t = tanh p : f32[16,8]
  y = add t, q : f32[16,8]
} -> (y))",
                         /*compute_as_calls=*/true);
  const auto j = nlohmann::json::parse(explain_json(explained(*c)));
  EXPECT_EQ(j["memory_kernels"], 1);
  EXPECT_EQ(j["compute_kernels"], 0);
  EXPECT_EQ(j["library_calls"], 2);
  EXPECT_EQ(j["opaque_steps"], 0);
  EXPECT_EQ(j["launches"], 3);
  EXPECT_EQ(j["memory_launches"], 1);
  EXPECT_EQ(j["kernels"][0]["kind"], "library");
  EXPECT_EQ(j["edges"][0]["reason"], "p counts as a library call of its own");
}

TEST(ExplainJson, LinksNodesKernelsAndEdges) {
  const auto c = compile(R"(
(x: f32[16,32], w: f32[32,8]) {
  p = dot_general x, w, lhs_contract={1}, rhs_contract={0} : f32[16,8]
  t = tanh p : f32[16,8]
  y = reduce t, axes={1}, combiner=sum : f32[16]
} -> (y))");
  const auto j = nlohmann::json::parse(explain_json(explained(*c)));
  EXPECT_EQ(j["compulsory_bytes"], (16 * 32 + 32 * 8 + 16) * 4);
  EXPECT_EQ(j["arena_bytes"], 16 * 8 * 4);
  EXPECT_EQ(j["kernels"][1]["number"], "2");
  ASSERT_EQ(j["nodes"].size(), 3U);
  EXPECT_EQ(j["nodes"][1]["tensor"], "t");
  EXPECT_EQ(j["nodes"][1]["kernel"], 0);
  EXPECT_EQ(j["nodes"][2]["kernel"], 1);
  EXPECT_EQ(j["edges"][1]["producer"], 1);
  EXPECT_EQ(j["edges"][1]["consumer"], 2);
  EXPECT_EQ(j["edges"][1]["tensor"], "t");
  EXPECT_EQ(j["edges"][1]["bytes"], 16 * 8 * 4);
}

TEST(ExplainJson, NumbersKernelsOfRegionsBehindTheirStep) {
  const auto c = compile(R"(
(x: f32[6,4], h0: f32[4]) {
  last, all = scan h0, x, carry_count=1, scanned_count=1, x_reverse={false}, y_reverse={false} : f32[4], f32[6,4]
    region (s: f32[4], e: f32[4]) {
      n = add s, e : f32[4]
    } -> (n, n)
  z = tanh all : f32[6,4]
} -> (z))");
  const auto j = nlohmann::json::parse(explain_json(explained(*c)));
  ASSERT_EQ(j["kernels"].size(), 2U);
  EXPECT_EQ(j["kernels"][0]["number"], "1.1");
  EXPECT_EQ(j["kernels"][0]["times"], 6);
  EXPECT_EQ(j["memory_kernels"], 2);
  EXPECT_EQ(j["memory_launches"], 7);
  EXPECT_EQ(j["kernels"][1]["number"], "2");
  ASSERT_EQ(j["nodes"].size(), 3U);
  EXPECT_TRUE(j["nodes"][0]["kernel"].is_null());
  EXPECT_EQ(j["nodes"][1]["depth"], 1);
}

TEST(ExplainJson, GoesIntoTheProgram) {
  const auto c = compile("(x: f32[16,32]) {\n  y = tanh x : f32[16,32]\n} -> (y)");
  EXPECT_EQ(c->program.explanation_json, explain_json(explained(*c)));
  EXPECT_NE(c->program.explanation.find("1 kernels"), std::string::npos) << c->program.explanation;
}

}  // namespace
}  // namespace weft
