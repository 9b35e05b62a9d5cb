#include "lower/cpu/lower_cpu.h"

#include "lower/core/buffers.h"
#include "lower/core/nests.h"
#include "lower/cpu/cpu_writer.h"
#include "lower/cpu/grid.h"

namespace weft::lowering {

namespace {

Status declare(CpuWriter& w) {
  w.kernel.argument_count = w.vars.arguments;
  w.kernel.inner_barriers = has_inner_barrier(w.program, w.scopes);
  add_parameters(w, 0);
  WEFT_RETURN_IF_ERROR(add_own_buffers(w, true));
  WEFT_RETURN_IF_ERROR(add_own_buffers(w, false));
  add_views(w);
  return {};
}

}  // namespace

Result<KernelFunction> lower_for_cpu(const TileProgram& program, const ScopeAnalysis& scopes,
                                     const Target& target) {
  CpuWriter w(program, scopes, target);
  WEFT_RETURN_IF_ERROR(declare(w));
  for (const std::vector<Nest>& nests : phases(w)) WEFT_RETURN_IF_ERROR(emit_phase(w, nests));
  return std::move(w.kernel);
}

Result<KernelFunction> outline_for_cpu(const TileProgram& program, const ScopeAnalysis& scopes,
                                       const Target& target) {
  CpuWriter w(program, scopes, target);
  WEFT_CHECK(w.vars.arguments == 0, "an outline of open sizes");
  WEFT_RETURN_IF_ERROR(declare(w));
  for (const std::vector<Nest>& nests : phases(w)) {
    KernelPhase& phase = w.kernel.phases.emplace_back();
    phase.work_items = items_of_phase(w, nests).constant();
  }
  return std::move(w.kernel);
}

}  // namespace weft::lowering
