#include "lower/gpu/lower_gpu.h"

#include "lower/core/buffers.h"
#include "lower/core/nests.h"
#include "lower/gpu/gpu_writer.h"
#include "lower/gpu/grid.h"
#include "lower/gpu/insert_block_barriers.h"
#include "lower/gpu/reduce_over_threads.h"

namespace weft::lowering {

Result<KernelFunction> lower_for_gpu(const TileProgram& program, const ScopeAnalysis& scopes) {
  GpuWriter w(program, scopes);
  KernelFunction& kernel = w.kernel;
  add_parameters(w, kDeviceAlignment);
  WEFT_RETURN_IF_ERROR(add_own_buffers(w, true));
  WEFT_RETURN_IF_ERROR(add_own_buffers(w, false));
  add_views(w);
  kernel.warps = static_cast<int32_t>(program.warps);
  kernel.blocks = block_count(w);
  if (scopes.cluster_blocks > kMostClusterBlocks) {
    return unsupported(program.name + " has clusters of " + std::to_string(scopes.cluster_blocks) +
                       " blocks");
  }
  kernel.cluster = static_cast<int32_t>(scopes.cluster_blocks);
  kernel.blocks_per_sm = static_cast<int32_t>(program.per_sm);
  WEFT_RETURN_IF_ERROR(check_one_iteration_a_block(w));
  kernel.shared_bytes =
      (scopes.block_bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
  emit_gpu_phases(w);
  place_exchanges(w);
  insert_block_barriers(kernel, w.memory.rotating);
  return std::move(kernel);
}

}  // namespace weft::lowering
