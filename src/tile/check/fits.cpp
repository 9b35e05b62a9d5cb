#include <algorithm>

#include "fmt/format.h"
#include "tile/check/fits.h"
#include "tile/scope_analysis.h"

namespace weft {
namespace {

/// Registers that one thread may have, and the part of the second-level cache that scratch may
/// fill: streams pass through the rest.
constexpr int64_t kGpuRegisters = 255;
constexpr int64_t kScratchShare = 2;

}  // namespace

Decision fits(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target) {
  const bool cpu = target.kind == Target::Kind::kCpu;
  if (cpu != program.cpu) {
    return Decision::forbid(fmt::format("{} is a program for a {}, {} is a {}", program.name,
                                        program.cpu ? "CPU" : "GPU", target.name,
                                        cpu ? "CPU" : "GPU"));
  }
  const int64_t registers = cpu ? target.vector_registers : kGpuRegisters;
  if (scopes.registers > registers) {
    return Decision::forbid(fmt::format("{} {}registers alive at once, {} has {}", scopes.registers,
                                        cpu ? "vector " : "", target.name, registers));
  }
  // A GPU's first level is the shared memory of a block.
  const int64_t memory = cpu ? target.l2_bytes / kScratchShare : target.l1_bytes;
  if (scopes.block_bytes > memory) {
    return Decision::forbid(fmt::format("{} B of {}, {} has {} for it", scopes.block_bytes,
                                        scope_name(Scope::kBlock, program.cpu), target.name,
                                        memory));
  }
  if (scopes.cluster_blocks > std::max(target.cluster_blocks, 1)) {
    return Decision::forbid(fmt::format(
        "clusters of {} blocks, {} has {}", scopes.cluster_blocks, target.name,
        target.cluster_blocks > 0 ? fmt::format("up to {}", target.cluster_blocks) : "none"));
  }
  return Decision::allow(fmt::format("{} registers, {} B of {}", scopes.registers,
                                     scopes.block_bytes, scope_name(Scope::kBlock, program.cpu)));
}

}  // namespace weft
