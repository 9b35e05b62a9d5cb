#include "driver/compilation.h"

namespace weft {

namespace {

int64_t node_count(const Compilation& c) {
  return c.imported.node_count > 0 ? c.imported.node_count
                                   : static_cast<int64_t>(c.graph.nodes.size());
}

}  // namespace

Compilation* other_binding_of(const Compilation& c) {
  return c.other.valid() ? c.other.get().get() : nullptr;
}

std::vector<const KernelFunction*> functions_of(const Compilation& c) {
  std::vector<const KernelFunction*> functions;
  for (const CompiledKernel& kernel : c.kernels) functions.push_back(&kernel.function);
  return functions;
}

CodeOfPlan code_of_plan(const Compilation& c) {
  CodeOfPlan code;
  for (const CompiledKernel& kernel : c.kernels)
    code[kernel.planned] = {&kernel.function, kernel.image, kernel.arguments};
  return code;
}

PlanTotals totals_of(const Compilation& c) { return plan_totals(c.plan, c.tensors, node_count(c)); }

Explained explained(const Compilation& c) {
  RegistersOf registers;
  if (!c.program.arch.empty()) {
    for (const CompiledKernel& kernel : c.kernels) {
      const KernelImage& image = c.program.kernels[static_cast<size_t>(kernel.image)];
      registers[kernel.planned] = image.device.registers;
    }
  }
  return {c.model,
          c.options.planner,
          node_count(c),
          c.target,
          c.tensors,
          c.plan,
          c.measured,
          c.planned_arena_bytes,
          c.unfused_arena_bytes,
          c.substitutions,
          c.device_notes,
          c.program,
          std::move(registers)};
}

}  // namespace weft
