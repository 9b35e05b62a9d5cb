#pragma once

#include <cstdint>

#include "plan/fusion_plan.h"
#include "target/target.h"

namespace weft {

/// Of the bytes that the kernels of a GPU read, those that its second-level cache does not hold, so
/// that a run reads them from memory: what Souffle's table 5 measures ("global memory data
/// transfer").
///
/// Launches, and the nests of one whose tensors do not fit together, run in their order over whole
/// tensors, of which those that were used last stay in half of the cache: where it has two parts
/// (A100, H100), what all SMs read lies in both. Nothing is there at first. Requires: kernels with
/// their traffic (estimate_traffic); where sizes are open, a tensor counts in full.
///
/// `kEmpty`: each launch finds the cache empty, as a profiler that measures them one by one has it
/// (Nsight Compute flushes it, unless told otherwise).
enum class CacheBefore : uint8_t { kAsLeft, kEmpty };
int64_t memory_reads(const FusionPlan& plan, const TensorProgram& program, const Target& target,
                     CacheBefore before = CacheBefore::kAsLeft);

}  // namespace weft
