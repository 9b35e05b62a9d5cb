#include "driver/explain/explain_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "driver/explain/kernel_summary.h"
#include "driver/explain/memory_reads.h"
#include "driver/explain/plan_totals.h"
#include "driver/explain/stitching.h"
#include "expr/analysis/memory_levels.h"

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

/// What the code of a GPU's kernels was found to need: the most of any.
Json device_code_json(const Program& program) {
  int32_t registers = 0, spills = 0, spilling = 0;
  int64_t shared = 0, bytes = 0;
  for (const KernelImage& image : program.kernels) {
    registers = std::max(registers, image.device.registers);
    shared = std::max(shared, image.device.shared_bytes);
    spills += image.device.spill_bytes;
    spilling += image.device.spill_bytes > 0 ? 1 : 0;
    bytes += static_cast<int64_t>(image.bytes.size());
  }
  return {{"arch", program.arch},         {"distinct_kernels", program.kernels.size()},
          {"registers", registers},       {"shared_bytes", shared},
          {"spilling_kernels", spilling}, {"spill_bytes", spills},
          {"code_bytes", bytes}};
}

Json kernel_json(const TensorProgram& program, const PlannedKernel& kernel,
                 const std::string& number, int64_t times, const Target& target,
                 const RegistersOf& registers) {
  const Estimate& e = kernel.schedule.estimate;
  Json j;
  j["name"] = kernel.name;
  j["number"] = number;
  j["kind"] = kernel.is_call ? "library" : kernel.is_compute ? "compute" : "memory";
  j["pattern"] = pattern_name(program, kernel);
  j["ops"] = origin_names(program, kernel.group);
  j["template"] = kernel.schedule.schedule_template;
  if (!kernel.schedule.measured.empty()) j["measured"] = kernel.schedule.measured;
  if (kernel.schedule.library) j["library_call"] = print(*kernel.schedule.library);
  if (!kernel.packed_because.empty()) j["packed_because"] = kernel.packed_because;
  if (const auto kept = reuse_summary(program, kernel))
    j["kept_on_chip"] = {{"hits", kept->reuse.hits},
                         {"evictions", kept->reuse.evictions},
                         {"bytes_saved", kept->reuse.saved_bytes},
                         {"bytes_of_a_block", kept->reuse.kept_bytes},
                         {"never_stored", kept->never_stored}};
  if (const auto ahead = ahead_summary(program, kernel, target))
    j["ahead_of_barriers"] = {{"tensors", ahead->tensors},
                              {"bytes_of_a_block", ahead->bytes},
                              {"hidden_us", ahead->hidden_us}};
  if (!kernel.copies.empty()) j["copies"] = copied_names(program, kernel);
  j["scopes"] = scope_summary(kernel);
  const RoundedTensors rounded = rounded_tensors(program, kernel, target);
  if (!rounded.stored.empty() || !rounded.multiplied.empty() || !rounded.kept.empty())
    j["rounding"] = {
        {"stored", rounded.stored}, {"multiplied", rounded.multiplied}, {"kept", rounded.kept}};
  if (std::string tiling = tiling_text(program, kernel, target); !tiling.empty())
    j["tiling"] = std::move(tiling);
  if (auto later = postponed_factors(program, kernel, target); !later.empty())
    j["scaled_behind"] = std::move(later);
  if (auto masked = assumed_masks(program, kernel, target); !masked.empty())
    j["masks_are_bounds"] = std::move(masked);
  j["shared_bytes"] = kernel.schedule.scopes.block_bytes;
  const ArenaUse arena = arena_summary(kernel).value_or(ArenaUse{});
  j["shared_bytes_requested"] = arena.requested;
  j["shared_bytes_least"] = arena.least;
  if (auto splits = split_summary(kernel); !splits.empty()) j["splits"] = std::move(splits);
  if (auto written = emission_of(program, kernel))
    j["emission"] = {{"stitched", written->stitched}, {"inlined", written->inlined}};
  for (const StitchedOp& op : stitching_of(program, kernel)) {
    j["stitching"][op.name] = scheme_name(op.scheme);
    if (op.demoted) j["demoted"].push_back(op.name);
  }
  j["registers"] = nullptr;
  if (const auto at = registers.find(&kernel); at != registers.end()) j["registers"] = at->second;
  j["predicted_us"] = e.microseconds;
  if (const auto l = latency_of(program, kernel, target))
    j["latency"] = {{"us", l->microseconds},
                    {"waves", l->waves},
                    {"cycles_of_a_warp", l->warp_cycles},
                    {"warps_of_an_sm", l->warps_of_sm},
                    {"registers", l->registers},
                    {"shared_bytes", l->shared_bytes},
                    {"bound", bound_name(l->bound)}};
  j["roofline_us"] = roofline_us(e.bytes_read + e.bytes_written, e.arithmetic_us, target);
  j["bytes_read"] = e.bytes_read;
  j["bytes_written"] = e.bytes_written;
  j["bytes_requested"] = e.bytes_requested;
  j["times"] = times;
  return j;
}

/// Writes kernels, nodes and edges of a plan, those of its regions behind what they belong to.
class PlanJson {
 public:
  PlanJson(const Explained& explained, Json* out) : e_(explained), out_(*out) {}

  void plan(const FusionPlan& plan, const TensorProgram& program, int64_t times, int depth,
            const std::string& prefix, int* number) {
    std::vector<int64_t> node_of_step(program.steps.size(), -1);
    std::vector<int32_t> step_of_expr(program.exprs.size()), step_of_opaque(program.opaques.size());
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const auto& [opaque, index] = program.steps[s];
      (opaque ? step_of_opaque : step_of_expr)[static_cast<size_t>(index)] =
          static_cast<int32_t>(s);
    }
    for (const FusionPlan::Step& step : plan.order) {
      const std::string shown = prefix + std::to_string(++*number);
      const auto index = static_cast<size_t>(step.index);
      if (step.opaque) {
        add_node(program, step_of_opaque[index], nullptr, depth, &node_of_step);
        regions(plan, program, step.index, times, depth, shown + ".");
        continue;
      }
      const PlannedKernel& kernel = plan.kernels[index];
      const Json position = out_["kernels"].size();
      out_["kernels"].push_back(
          kernel_json(program, kernel, shown, times, e_.target, e_.registers));
      for (const int32_t s : own_steps(kernel, step_of_expr))
        add_node(program, s, position, depth, &node_of_step);
      for (const LoopMember& loop : kernel.loops) {
        add_node(program, step_of_opaque[static_cast<size_t>(loop.opaque)], position, depth,
                 &node_of_step);
        loop_nodes(*loop.body, *program.opaques[static_cast<size_t>(loop.opaque)].regions.back(),
                   position, depth + 1);
      }
    }
    for (const EdgeDecision& edge : plan.edges) add_edge(program, edge, node_of_step);
  }

 private:
  /// What a loop computes that is a member of the kernel at `position`.
  void loop_nodes(const FusionPlan& plan, const TensorProgram& program, const Json& position,
                  int depth) {
    std::vector<int64_t> node_of_step(program.steps.size(), -1);
    for (size_t s = 0; s < program.steps.size(); ++s)
      add_node(program, static_cast<int32_t>(s), position, depth, &node_of_step);
    for (const EdgeDecision& edge : plan.edges) add_edge(program, edge, node_of_step);
  }

  void regions(const FusionPlan& plan, const TensorProgram& program, int32_t index, int64_t times,
               int depth, const std::string& prefix) {
    const OpaqueExpr& opaque = program.opaques[static_cast<size_t>(index)];
    const auto& regions = plan.regions[static_cast<size_t>(index)];
    const int64_t inner = region_runs(program, opaque, regions, times);
    int number = 0;
    for (size_t r = 0; r < regions.size(); ++r)
      this->plan(*regions[r], *opaque.regions[r], inner, depth + 1, prefix, &number);
  }

  /// Steps of a kernel's expressions but for its copies, in the program's order.
  static std::vector<int32_t> own_steps(const PlannedKernel& kernel,
                                        const std::vector<int32_t>& step_of_expr) {
    std::vector<int32_t> steps;
    for (const ExprId e : kernel.group.exprs) {
      if (std::ranges::find(kernel.copies, e) == kernel.copies.end())
        steps.push_back(step_of_expr[static_cast<size_t>(e)]);
    }
    std::ranges::sort(steps);
    return steps;
  }

  void add_node(const TensorProgram& program, int32_t step, const Json& kernel, int depth,
                std::vector<int64_t>* node_of_step) {
    (*node_of_step)[static_cast<size_t>(step)] = static_cast<int64_t>(out_["nodes"].size());
    const auto& [opaque, index] = program.steps[static_cast<size_t>(step)];
    const TensorId made = opaque ? program.opaques[static_cast<size_t>(index)].results[0]
                                 : program.exprs[static_cast<size_t>(index)].output;
    out_["nodes"].push_back({{"names", step_names(program, step)},
                             {"tensor", program.tensors[static_cast<size_t>(made)].name},
                             {"kernel", kernel},
                             {"depth", depth}});
  }

  void add_edge(const TensorProgram& program, const EdgeDecision& edge,
                const std::vector<int64_t>& node_of_step) {
    const Tensor& tensor = program.tensors[static_cast<size_t>(edge.tensor)];
    out_["edges"].push_back(
        {{"from", step_names(program, edge.producer).back()},
         {"to", step_names(program, edge.consumer).back()},
         {"verdict", verdict_name(edge.verdict)},
         {"reason", edge.reason},
         {"producer", node_of_step[static_cast<size_t>(edge.producer)]},
         {"consumer", node_of_step[static_cast<size_t>(edge.consumer)]},
         {"tensor", tensor.name},
         {"bytes", checked_byte_size(tensor.type.dtype, tensor.type.shape).value_or(0)}});
  }

  const Explained& e_;
  Json& out_;
};

}  // namespace

std::string explain_json(const Explained& c) {
  const PlanTotals totals = plan_totals(c.plan, c.tensors, c.ops);
  Json j;
  j["target"] = c.target.name;
  j["plan"] = c.planner;
  j["ops"] = totals.ops;
  j["memory_kernels"] = totals.memory_kernels;
  j["least_memory_kernels"] = memory_levels(c.tensors).least;
  j["compute_kernels"] = totals.compute_kernels;
  j["library_calls"] = totals.library_calls;
  j["opaque_steps"] = totals.opaque_steps;
  j["launches"] = totals.launches;
  j["memory_launches"] = totals.memory_launches;
  j["bytes_read"] = totals.bytes_read;
  if (c.target.is_gpu()) {
    j["bytes_from_memory"] = memory_reads(c.plan, c.tensors, c.target);
    j["bytes_from_memory_each_alone"] =
        memory_reads(c.plan, c.tensors, c.target, CacheBefore::kEmpty);
  }
  j["bytes_written"] = totals.bytes_written;
  j["compulsory_bytes"] = compulsory_bytes(c.tensors, c.target);
  j["flops"] = totals.flops;
  j["predicted_us"] = totals.predicted_us;
  j["arena_bytes"] = c.planned_arena_bytes;
  j["unfused_arena_bytes"] = c.unfused_arena_bytes;
  const PatternTotals patterns = pattern_totals(c.plan, c.tensors);
  j["patterns"] = {{"gemm", patterns.gemm},
                   {"reduction", patterns.reduction},
                   {"elementwise", patterns.elementwise}};
  const ArenaTotals arena = arena_totals(c.plan, c.tensors);
  j["shared_memory"] = {{"kernels", arena.kernels},
                        {"bytes", arena.bytes},
                        {"bytes_requested", arena.requested},
                        {"most_bytes", arena.most}};
  for (const char* list : {"kernels", "nodes", "edges"}) j[list] = Json::array();
  int number = 0;
  PlanJson(c, &j).plan(c.plan, c.tensors, 1, 0, "", &number);
  if (!c.program.arch.empty()) j["device_code"] = device_code_json(c.program);
  return j.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weft
