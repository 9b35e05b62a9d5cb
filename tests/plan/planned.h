#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/planners/plan_fusion.h"
#include "tests/schedule/expressed.h"

namespace weft {

inline Target two_cores() {
  Target t;
  t.name = "test";
  t.threads = 2;
  t.vector_bytes = 64;
  t.vector_registers = 32;
  t.bandwidth = {{1 << 15, 200}, {1 << 25, 30}};
  return t;
}

/// The plan of a program, verified.
inline FusionPlan plan_of(const TensorProgram& program, const Target& target,
                          const std::string& planner = "auto", const std::string& parameters = "",
                          bool compute_as_calls = false) {
  PlanOptions options;
  options.planner = planner;
  options.parameters = parameters;
  options.compute_as_calls = compute_as_calls;
  auto plan = plan_fusion(program, target, options);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  if (!plan.ok()) return {};
  const Status status = verify_plan(program, *plan);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return std::move(*plan);
}

/// Groups that are scheduled apart, though their kernels may share a launch.
inline size_t groups_of(const FusionPlan& plan) {
  size_t groups = 0;
  for (const PlannedKernel& kernel : plan.kernels)
    groups += std::max<size_t>(kernel.members.size(), 1);
  return groups;
}

/// "m, d | e: memory rows" with what the kernel makes, its members apart, and why they share it.
inline std::string summary(const PlannedKernel& kernel, const TensorProgram& program) {
  std::string text;
  const std::vector<Group> alone{kernel.group};
  const char* separator = "";
  for (const Group& member : kernel.members.empty() ? alone : kernel.members) {
    for (const ExprId e : member.exprs) {
      const TensorId made = program.exprs[static_cast<size_t>(e)].output;
      text += separator + program.tensors[static_cast<size_t>(made)].name;
      separator = ", ";
    }
    separator = " | ";
  }
  text += kernel.is_compute ? ": compute " : ": memory ";
  text += kernel.schedule.schedule_template;
  if (!kernel.packed_because.empty()) text += " because " + kernel.packed_because;
  return text;
}

/// "m: fused, saves 0.9 us": the tensor of an edge, what was decided and why.
inline std::string summary(const EdgeDecision& edge, const TensorProgram& program) {
  return program.tensors[static_cast<size_t>(edge.tensor)].name + ": " +
         std::string(verdict_name(edge.verdict)) + ", " + edge.reason;
}

}  // namespace weft
