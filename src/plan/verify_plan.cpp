#include <algorithm>
#include <set>

#include "plan/fusion_plan.h"
#include "tile/check/verify_tile_program.h"
#include "tile/text/tile_text.h"

namespace weft {

namespace {

Error broken(std::string what) { return {ErrorCode::kInternal, "plan: " + std::move(what)}; }

/// Every expression is made, several times where kernels have copies of it, and stored once at
/// most.
Status verify_partition(const TensorProgram& program, const FusionPlan& plan) {
  std::vector<int> seen(program.exprs.size(), 0);
  std::set<TensorId> stored;
  for (const PlannedKernel& kernel : plan.kernels) {
    for (const ExprId e : kernel.group.exprs) {
      if (e < 0 || static_cast<size_t>(e) >= seen.size())
        return broken(kernel.name + " holds an expression that the program lacks");
      ++seen[static_cast<size_t>(e)];
    }
    for (const TensorId t : kernel.group.outputs) {
      if (!stored.insert(t).second)
        return broken(program.tensors[static_cast<size_t>(t)].name + " is stored by two kernels");
    }
  }
  for (size_t e = 0; e < seen.size(); ++e) {
    if (seen[e] == 0) return broken("expression " + std::to_string(e) + " is in no kernel");
  }
  return {};
}

/// Every kernel and opaque step once.
Status verify_order(const TensorProgram& program, const FusionPlan& plan) {
  std::vector<int> kernels(plan.kernels.size(), 0), opaques(program.opaques.size(), 0);
  for (const FusionPlan::Step& step : plan.order) {
    std::vector<int>& seen = step.opaque ? opaques : kernels;
    if (step.index < 0 || static_cast<size_t>(step.index) >= seen.size())
      return broken("the order names a step that is not there");
    ++seen[static_cast<size_t>(step.index)];
  }
  for (const PlannedKernel& kernel : plan.kernels) {
    for (const LoopMember& loop : kernel.loops) {
      if (loop.opaque < 0 || static_cast<size_t>(loop.opaque) >= opaques.size())
        return broken(kernel.name + " runs a loop that is not there");
      ++opaques[static_cast<size_t>(loop.opaque)];
    }
  }
  for (const std::vector<int>* seen : {&kernels, &opaques}) {
    for (size_t i = 0; i < seen->size(); ++i) {
      if ((*seen)[i] != 1) {
        return broken(std::string(seen == &kernels ? "kernel " : "opaque step ") +
                      std::to_string(i) + " runs " + std::to_string((*seen)[i]) + " times");
      }
    }
  }
  return {};
}

Status verify_copies(const TensorProgram& program, const FusionPlan& plan) {
  const std::vector<std::vector<ExprId>> copies = copies_of(program, plan);
  for (size_t k = 0; k < copies.size(); ++k) {
    if (plan.kernels[k].copies != copies[k])
      return broken(plan.kernels[k].name + " does not say what it makes again");
  }
  return {};
}

Status verify_stored(const TensorProgram& program, const FusionPlan& plan) {
  std::set<TensorId> made;
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    if (program.tensors[t].kind != Tensor::Kind::kIntermediate)
      made.insert(static_cast<TensorId>(t));
  }
  const auto need = [&](TensorId t) -> Status {
    if (made.count(t) != 0) return {};
    return broken(program.tensors[static_cast<size_t>(t)].name + " is read before it is stored");
  };
  for (const FusionPlan::Step& step : plan.order) {
    if (step.opaque) {
      const OpaqueExpr& opaque = program.opaques[static_cast<size_t>(step.index)];
      for (const TensorId t : opaque.operands) WEFT_RETURN_IF_ERROR(need(t));
      made.insert(opaque.results.begin(), opaque.results.end());
      continue;
    }
    const PlannedKernel& kernel = plan.kernels[static_cast<size_t>(step.index)];
    const std::set<TensorId> outputs(kernel.group.outputs.begin(), kernel.group.outputs.end());
    for (const TensorId t : kernel.schedule.parameters) {
      if (outputs.count(t) == 0) WEFT_RETURN_IF_ERROR(need(t));
    }
    made.insert(outputs.begin(), outputs.end());
  }
  for (const TensorId t : program.outputs) WEFT_RETURN_IF_ERROR(need(t));
  return {};
}

/// What runs a whole loop is the only step of its body.
Status verify_loops(const TensorProgram& program, const FusionPlan& plan,
                    const std::optional<RegionLoop>& loop) {
  for (const PlannedKernel& kernel : plan.kernels) {
    if (!kernel.loop) continue;
    if (!loop || loop->trips != kernel.loop->trips)
      return broken(kernel.name + " runs another loop than the one around it");
    if (plan.kernels.size() > 1 || !program.opaques.empty())
      return broken(kernel.name + " runs a loop whose body has other steps");
  }
  return {};
}

/// A loop in a launch is a member of its own, all of whose iterations one kernel runs; what it
/// gives is stored.
Status verify_loop_members(const TensorProgram& program, const PlannedKernel& kernel) {
  for (const LoopMember& loop : kernel.loops) {
    const OpaqueExpr& scan = program.opaques[static_cast<size_t>(loop.opaque)];
    const bool is_member = kernel.members.size() > 1 && loop.member < kernel.members.size() &&
                           kernel.members[loop.member].exprs.empty() &&
                           kernel.members[loop.member].outputs == scan.results;
    if (!is_member || loop.body == nullptr || !runs_whole_loop({loop.body}))
      return broken(kernel.name + " has a loop that is no member of it");
    for (const TensorId t : scan.results) {
      if (std::ranges::find(kernel.group.outputs, t) == kernel.group.outputs.end())
        return broken(kernel.name + " does not store what its loop gives");
    }
    const size_t at = loop.member;
    const std::vector<Composition>& composed = kernel.schedule.composition.members;
    if (at >= composed.size() || composed[at] != loop.body->kernels[0].schedule.composition)
      return broken(kernel.name + " composes a loop otherwise than the plan of its body");
  }
  return {};
}

/// What was composed for the blocks of one cluster is a program of that.
Status verify_clusters(const FusionPlan& plan) {
  for (const PlannedKernel& kernel : plan.kernels) {
    const int64_t composed = kernel.schedule.composition.cluster_blocks;
    const TileProgram& program = kernel.schedule.program;
    const bool alike = program.one_cluster ? program.blocks.is_const(composed) : composed == 0;
    if (!alike) return broken(kernel.name + " is composed for another cluster than it runs on");
  }
  return {};
}

/// Layers that repeat have one program but for names.
Status verify_tile_programs(const FusionPlan& plan) {
  std::set<uint64_t> verified;
  for (const PlannedKernel& kernel : plan.kernels) {
    const TileProgram& program = kernel.schedule.program;
    if (!verified.insert(tile_program_hash(program)).second) continue;
    if (const Status status = verify_tile_program(program); !status.ok())
      return broken(status.error().message);
  }
  return {};
}

}  // namespace

namespace {

Status verify_plan_of(const TensorProgram& program, const FusionPlan& plan,
                      const std::optional<RegionLoop>& loop) {
  WEFT_RETURN_IF_ERROR(verify_loops(program, plan, loop));
  WEFT_RETURN_IF_ERROR(verify_partition(program, plan));
  WEFT_RETURN_IF_ERROR(verify_order(program, plan));
  WEFT_RETURN_IF_ERROR(verify_copies(program, plan));
  WEFT_RETURN_IF_ERROR(verify_stored(program, plan));
  WEFT_RETURN_IF_ERROR(verify_clusters(plan));
  WEFT_RETURN_IF_ERROR(verify_tile_programs(plan));
  if (plan.regions.size() != program.opaques.size())
    return broken("the opaque steps' regions are not all planned");
  std::vector<RegionPlans> all = plan.regions;
  for (const PlannedKernel& kernel : plan.kernels) {
    WEFT_RETURN_IF_ERROR(verify_loop_members(program, kernel));
    for (const LoopMember& own : kernel.loops)
      all[static_cast<size_t>(own.opaque)].push_back(own.body);
  }
  for (size_t o = 0; o < all.size(); ++o) {
    const auto& regions = program.opaques[o].regions;
    if (all[o].size() != regions.size())
      return broken("opaque step " + std::to_string(o) + " has another number of regions");
    const auto inside = loop_around(program, program.opaques[o]);
    for (size_t r = 0; r < regions.size(); ++r)
      WEFT_RETURN_IF_ERROR(verify_plan_of(*regions[r], *all[o][r], inside));
  }
  return {};
}

}  // namespace

Status verify_plan(const TensorProgram& program, const FusionPlan& plan) {
  return verify_plan_of(program, plan, std::nullopt);
}

}  // namespace weft
