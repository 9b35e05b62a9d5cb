// The schemes of AStitch by which operations of a kernel hand each other values.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/compiler.h"
#include "driver/explain/explain_text.h"
#include "driver/explain/stitching.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Compilation> plan_of(const std::string& text, const char* device,
                                     const std::string& compositions) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  CompileOptions options;
  options.planner = "subprogram";
  options.compositions = compositions;
  options.stop_after = "plan";
  options.device = *find_target(device);
  auto compiled = compile_graph(std::move(*graph), options);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  return compiled.ok() ? std::move(*compiled) : nullptr;
}

/// Of all kernels of a plan, in the order of their operations.
std::string schemes(const std::string& text, const char* device, const std::string& compositions) {
  const auto c = plan_of(text, device, compositions);
  if (c == nullptr) return "";
  std::string out;
  for (const PlannedKernel& kernel : c->plan.kernels) {
    for (const StitchedOp& op : stitching_of(c->tensors, kernel))
      out += (out.empty() ? "" : ", ") + op.name + " " + std::string(scheme_name(op.scheme));
  }
  return out;
}

constexpr const char* kProducts = R"((a: f32[37,70], w: f32[70,40], v: f32[40,33]) {
  p = dot_general a, w, lhs_contract={1}, rhs_contract={0} : f32[37,40]
  e = tanh p : f32[37,40]
  q = dot_general e, v, lhs_contract={1}, rhs_contract={0} : f32[37,33]
} -> (q))";

TEST(StitchingSchemes, RegistersAreLocal) {
  EXPECT_EQ(schemes("(x: f32[512]) {\n e = exp x : f32[512]\n y = abs e : f32[512]\n} -> (y)",
                    "h100-sxm", "leaf"),
            "e local, y independent");
}

/// Rows of several warps: what all of them add up lies in the block's memory.
TEST(StitchingSchemes, WhatBlocksShareIsRegional) {
  const auto c = plan_of(kProducts, "h100-sxm", "leaf,cluster");
  ASSERT_NE(c, nullptr);
  const auto ops = stitching_of(c->tensors, c->plan.kernels[0]);
  ASSERT_EQ(ops.size(), 3U);
  EXPECT_EQ(ops[1].scheme, StitchingScheme::kRegional) << stitching_text(ops);
  EXPECT_THAT(explain_text(explained(*c)), HasSubstr("stitching: "));
}

TEST(StitchingSchemes, BehindABarrierOfTheGridIsGlobal) {
  EXPECT_EQ(schemes(kProducts, "a100-40gb", "leaf,grid"), "p local, e global, q independent");
  EXPECT_EQ(schemes(kProducts, "h100-sxm", "leaf,cluster"), "p local, e regional, q independent");
}

/// What a block has made, and finds no room to keep, is read behind the barrier.
TEST(StitchingSchemes, ShortMemoryDemotes) {
  const char* text = R"((x: f32[96,3136], w: f32[96,4], v: f32[4,96]) {
  t = tanh x : f32[96,3136]
  s = reduce t, axes={1}, combiner=sum : f32[96]
  m = reshape s : f32[1,96]
  a = dot_general m, w, lhs_contract={1}, rhs_contract={0} : f32[1,4]
  b = tanh a : f32[1,4]
  d = dot_general b, v, lhs_contract={1}, rhs_contract={0} : f32[1,96]
  e = reshape d : f32[96]
  g = broadcast e, dims={0} : f32[96,3136]
  y = mul t, g : f32[96,3136]
} -> (y, t))";
  const auto kept = plan_of(text, "a100-40gb", "leaf,grid");
  ASSERT_NE(kept, nullptr);
  auto few = find_target("a100-40gb");
  few->shared_bytes_per_block = 8 << 10;
  auto graph = parse_graph(text);
  CompileOptions options;
  options.planner = "subprogram";
  options.compositions = "leaf,grid";
  options.stop_after = "plan";
  options.device = *few;
  const auto short_of = compile_graph(std::move(*graph), options);
  ASSERT_TRUE(short_of.ok()) << short_of.error().message;
  const auto demoted = [](const Compilation& c) {
    std::vector<std::string> out;
    for (const PlannedKernel& kernel : c.plan.kernels) {
      for (const StitchedOp& op : stitching_of(c.tensors, kernel)) {
        if (op.demoted) out.push_back(op.name);
      }
    }
    return out;
  };
  EXPECT_THAT(demoted(*kept), IsEmpty()) << explain_text(explained(*kept));
  EXPECT_THAT(demoted(**short_of), ::testing::Contains("t")) << explain_text(explained(**short_of));
}

TEST(StitchingSchemes, ACpuHasNone) { EXPECT_EQ(schemes(kProducts, "x86-64-v3", "leaf"), ""); }

}  // namespace
}  // namespace weft::testing
