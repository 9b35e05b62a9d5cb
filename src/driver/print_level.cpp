#include "driver/print_level.h"

#include "codegen/cpu/compile_kernel.h"
#include "codegen/cuda/emit_cuda.h"
#include "driver/explain/kernel_summary.h"
#include "tile/text/tile_text.h"

namespace weft {

namespace {

void print_tiles(const FusionPlan& plan, std::string* out) {
  for (const PlannedKernel& kernel : plan.kernels) {
    *out += tile_text(kernel) + "\n";
  }
  for (const auto& regions : plan.regions) {
    for (const auto& region : regions) print_tiles(*region, out);
  }
}

}  // namespace

std::string tile_text(const PlannedKernel& kernel) {
  std::string out = print(kernel.schedule.program, kernel.schedule.scopes);
  for (const std::string& form : template_summary(kernel)) out += "-- template: " + form + "\n";
  return out;
}

Result<std::string> print_level(const Compilation& c, const std::string& level) {
  if (level == "graph") return print(c.graph);
  if (level == "tensor-program") return print(c.tensors);
  if (level == "plan") return print(c.plan, c.tensors);
  std::string out;
  if (level == "tile-program") {
    print_tiles(c.plan, &out);
    return out;
  }
  if (level == "kernel") {
    for (const CompiledKernel& k : c.kernels) out += print(k.function) + "\n";
    return out;
  }
  if (level == "code") {
    for (const KernelFunction* f : functions_of(c)) {
      if (f->is_gpu()) {
        out += emit_cuda(*f).text + "\n";
        continue;
      }
      WEFT_ASSIGN_OR_RETURN(const std::string text, kernel_code_text(*f, c.target));
      out += text + "\n";
    }
    return out;
  }
  return invalid_input("unknown stage '" + level +
                       "'; known: graph, tensor-program, plan, tile-program, kernel, code");
}

}  // namespace weft
