#pragma once

#include <string>

#include "schedule/stages/block_space.h"
#include "schedule/stages/demand_boxes.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// The tile program of a chain for a GPU (MCFuser §III; FlashAttention's loop, where the reductions
/// ask for it). All members of the steps lie on the fragments of the block's products: warps stand
/// one below another along the rows, so that a row's elements are in the registers of one warp, and
/// what one product makes the next one multiplies where it lies.
///
///     grid … m step 64 {
///       A[m,k] = q[m,k];
///       seq n step 64 stages 2 carry mx[m], l[m], y[m,e] {
///         B[n,k] = k[n,k] at block;  S[m,n] = sum[k] A[m,k]*B[n,k] by mma_m16n8k16;  …
///         B2[n,e] = v[n,e] at block;  part[m,e] = sum[n] P[m,n]*B2[n,e] by mma_m16n8k16;
///         y'[m,e] = y[m,e]*c[m] + part[m,e]; }
///       out[m,e] = y[m,e]/l[m] }
///
/// Where a block has fewer rows than its warps would have below one another, some stand beside each
/// other: rows are reduced over them, and what one product makes passes through shared memory.
///
/// Operands of 16 bits are multiplied on matrix units, those of float32 on plain cores (on units
/// where the target may round them), which read what one product hands to the next out of shared
/// memory.
///
/// `space`: of the steps. `row_loop`: the partition's loop over rows, or -1. Errors: kUnsupported,
/// a member that has no such form; kInvalidInput, a choice that is none for the chain.
Result<ScheduledKernel> build_fragment_chain(const BlockSpace& space,
                                             const BlockPartition& partition, int row_loop,
                                             const DemandBoxes& demand,
                                             const FragmentsChoice& choice, const Target& target,
                                             const std::string& name);

}  // namespace weft
