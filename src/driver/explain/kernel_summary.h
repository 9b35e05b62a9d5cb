#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/gpu_latency.h"
#include "plan/fusion_plan.h"
#include "tile/analysis/arena_use.h"
#include "tile/rewrite/reuse_boxes.h"

namespace weft {

/// Names of the model's nodes behind one step of the program; an expression without an origin goes
/// by its tensor.
std::vector<std::string> step_names(const TensorProgram& program, int32_t step);

/// Names of the model's nodes in a kernel.
std::vector<std::string> origin_names(const TensorProgram& program, const Group& group);

/// Names of the tensors that a kernel makes again for itself.
std::vector<std::string> copied_names(const TensorProgram& program, const PlannedKernel& kernel);

/// Scopes of a kernel's local values, "register 5, scratch 1".
std::string scope_summary(const PlannedKernel& kernel);

/// How a GPU's kernel lies on its blocks: each template form of FusionStitching with the statements
/// that have it, "[GRID_4,CTA_32-THREAD_4] x_v, y". Empty for a CPU's.
std::vector<std::string> template_summary(const PlannedKernel& kernel);

/// How blocks cut what a kernel stores: FusionStitching's schedules of 2018
/// (tile/text/split_form.h) with the outputs that have them, "Row(split_dim 0, sword 64) y, s".
std::vector<std::string> split_summary(const PlannedKernel& kernel);

/// What a kernel is by its expressions (FusionStitching 2019 §6.4): "gemm" where it multiplies,
/// else "reduction" where it reduces, else "elementwise".
std::string_view pattern_name(const TensorProgram& program, const PlannedKernel& kernel);

/// How a block of stages writes its expressions (FusionStitching 2018, Algorithm 2): those with
/// loops and memory of their own, which reduce, reach memory or are kept for other stages; and
/// those in the loops of their readers. By the names of what they make. Nothing for other
/// compositions.
struct Emission {
  std::vector<std::string> stitched, inlined;
};
std::optional<Emission> emission_of(const TensorProgram& program, const PlannedKernel& kernel);

/// Of a kernel's shared memory, or scratch; nothing for one without, and for a library's call.
std::optional<ArenaUse> arena_summary(const PlannedKernel& kernel);

/// What the evaluator `latency` of GPUs says of a kernel's tile program; nothing on CPUs, whose
/// estimate it is, and of products, which have models of their own.
std::optional<GpuLatency> latency_of(const TensorProgram& program, const PlannedKernel& kernel,
                                     const Target& target);

/// What a kernel does with the tensors of 16-bit floats that it makes (group/widen_halves.h): their
/// names.
struct RoundedTensors {
  std::vector<std::string> stored;  ///< rounded as they reach memory
  std::vector<std::string>
      multiplied;                 ///< rounded inside the kernel, where a contraction reads them
  std::vector<std::string> kept;  ///< float32 inside the kernel: the model's rounding is skipped
};
RoundedTensors rounded_tensors(const TensorProgram& program, const PlannedKernel& kernel,
                               const Target& target);

/// Sums of a chain that are multiplied or divided behind its loop, where the model does so with
/// their terms, "y by l": they may overflow where the terms would not. Empty for other kernels.
std::vector<std::string> postponed_factors(const TensorProgram& program,
                                           const PlannedKernel& kernel, const Target& target);

/// How a chain's loops over tiles stand, MCFuser's tiling expression "mnk"
/// (schedule/stages/chain_tiling.h); empty for other kernels.
std::string tiling_text(const TensorProgram& program, const PlannedKernel& kernel,
                        const Target& target);

/// What blocks of a launch keep on chip from kernel to kernel (tile/rewrite/reuse_boxes.h), with
/// the names of the tensors that are never stored; nothing where each of them reads memory.
struct ReuseSummary {
  BoxReuse reuse;
  std::vector<std::string> never_stored;
};
std::optional<ReuseSummary> reuse_summary(const TensorProgram& program,
                                          const PlannedKernel& kernel);

/// What blocks of a launch load ahead of barriers (tile/analysis/loads_ahead.h), and what that is
/// predicted to hide; nothing where all loads wait.
struct AheadSummary {
  std::vector<std::string> tensors;
  int64_t bytes = 0;  ///< of a block, in all
  double hidden_us = 0;
};
std::optional<AheadSummary> ahead_summary(const TensorProgram& program, const PlannedKernel& kernel,
                                          const Target& target);

/// Reductions of a chain that take masks of finite numbers, or which are added, for bounds: what a
/// mask hides is left out, also where it is infinite, NaN or above the mask. Empty for others.
std::vector<std::string> assumed_masks(const TensorProgram& program, const PlannedKernel& kernel,
                                       const Target& target);

/// Why all blocks of a kernel with a barrier of the grid are on the device at once, or why they are
/// not; empty for a kernel without.
std::string residency_proof(const PlannedKernel& kernel, const Target& target);

/// For how many blocks of an SM a kernel's code is bounded, and the registers that this leaves it;
/// empty where it is bounded for one, waits for others, or is a product's.
std::string launch_bound(const PlannedKernel& kernel, const Target& target);

}  // namespace weft
