#include "lower/lower.h"

#include "lower/cpu/lower_cpu.h"
#include "lower/gpu/lower_gpu.h"
#include "tile/analysis/derive_scopes.h"

namespace weft {

Result<KernelFunction> lower_to_kernel(const TileProgram& program, const ScopeAnalysis& scopes,
                                       const Target& target) {
  return program.cpu ? lowering::lower_for_cpu(program, scopes, target)
                     : lowering::lower_for_gpu(program, scopes);
}

Result<KernelFunction> lower_to_kernel(const TileProgram& program, const Target& target) {
  WEFT_ASSIGN_OR_RETURN(const ScopeAnalysis scopes, derive_scopes(program));
  return lower_to_kernel(program, scopes, target);
}

Result<KernelFunction> kernel_outline(const TileProgram& program, const ScopeAnalysis& scopes,
                                      const Target& target) {
  return lowering::outline_for_cpu(program, scopes, target);
}

}  // namespace weft
