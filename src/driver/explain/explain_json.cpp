#include "driver/explain/explain_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "driver/explain/kernel_summary.h"
#include "driver/explain/plan_totals.h"

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

Json kernel_json(const TensorProgram& program, const PlannedKernel& kernel, int64_t times,
                 const Target& target, const RegistersOf& registers) {
  const Estimate& e = kernel.schedule.estimate;
  Json j;
  j["name"] = kernel.name;
  j["kind"] = kernel.is_compute ? "compute" : "memory";
  j["ops"] = origin_names(program, kernel.group);
  j["template"] = kernel.schedule.schedule_template;
  if (kernel.schedule.library) j["library_call"] = print(*kernel.schedule.library);
  if (!kernel.packed_because.empty()) j["packed_because"] = kernel.packed_because;
  if (!kernel.copies.empty()) j["copies"] = copied_names(program, kernel);
  j["scopes"] = scope_summary(kernel);
  j["shared_bytes"] = kernel.schedule.scopes.block_bytes;
  j["registers"] = nullptr;
  if (const auto at = registers.find(&kernel); at != registers.end()) j["registers"] = at->second;
  j["predicted_us"] = e.microseconds;
  j["roofline_us"] = roofline_us(e.bytes_read + e.bytes_written, e.flops, target);
  j["bytes_read"] = e.bytes_read;
  j["bytes_written"] = e.bytes_written;
  j["bytes_requested"] = e.bytes_requested;
  j["times"] = times;
  return j;
}

void add_kernels(const FusionPlan& plan, const TensorProgram& program, int64_t times,
                 const Target& target, const RegistersOf& registers, Json& list) {
  for (const FusionPlan::Step& step : plan.order) {
    if (!step.opaque) {
      list.push_back(kernel_json(program, plan.kernels[static_cast<size_t>(step.index)], times,
                                 target, registers));
      continue;
    }
    const OpaqueExpr& opaque = program.opaques[static_cast<size_t>(step.index)];
    const auto& regions = plan.regions[static_cast<size_t>(step.index)];
    const int64_t inner = region_runs(program, opaque, times);
    for (size_t r = 0; r < regions.size(); ++r)
      add_kernels(*regions[r], *opaque.regions[r], inner, target, registers, list);
  }
}

}  // namespace

std::string explain_json(const Explained& c) {
  const PlanTotals totals = plan_totals(c.plan, c.tensors, c.ops);
  Json j;
  j["target"] = c.target.name;
  j["plan"] = c.planner;
  j["ops"] = totals.ops;
  j["memory_kernels"] = totals.memory_kernels;
  j["compute_kernels"] = totals.compute_kernels;
  j["library_calls"] = totals.library_calls;
  j["bytes_read"] = totals.bytes_read;
  j["bytes_written"] = totals.bytes_written;
  j["flops"] = totals.flops;
  j["predicted_us"] = totals.predicted_us;
  j["kernels"] = Json::array();
  add_kernels(c.plan, c.tensors, 1, c.target, c.registers, j["kernels"]);
  if (!c.program.arch.empty()) j["device_code"] = device_code_json(c.program);
  j["edges"] = Json::array();
  for (const EdgeDecision& e : c.plan.edges) {
    j["edges"].push_back({{"from", step_names(c.tensors, e.producer).back()},
                          {"to", step_names(c.tensors, e.consumer).back()},
                          {"verdict", verdict_name(e.verdict)},
                          {"reason", e.reason}});
  }
  return j.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weft
