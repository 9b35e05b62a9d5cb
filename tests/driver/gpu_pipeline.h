#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/driver/emulated_graph.h"

namespace weft::testing {

/// Planned for h100-sxm, and no further than its kernels.
inline std::unique_ptr<Compilation> planned(const std::string& text, bool fast_math = false) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  if (!graph.ok()) return nullptr;
  CompileOptions options;
  options.device = *find_target("h100-sxm");
  options.verify = true;
  options.fast_math = fast_math;
  auto compiled = compile_graph(*graph, options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  return compiled.ok() ? std::move(*compiled) : nullptr;
}

/// The compilation for h100-sxm, for looking at; null after a failure.
inline std::unique_ptr<Compilation> expect_same(const std::string& text, double tolerance = 1e-5,
                                                bool fast_math = false) {
  return run_and_compare(text, *find_target("h100-sxm"), tolerance, fast_math).compilation;
}

/// The same plan from its text, which is returned.
inline std::string expect_plan_from_text(const Compilation& c) {
  const std::string plan = *print_level(c, "plan");
  const auto again = parse_plan(plan, c.tensors, c.target);
  EXPECT_TRUE(again.ok()) << again.error().message << plan;
  if (again.ok()) EXPECT_EQ(print(*again, c.tensors), plan);
  return plan;
}

class GpuPipeline : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_emulate()) GTEST_SKIP() << "no compiler to build CUDA text with";
  }
};

}  // namespace weft::testing
