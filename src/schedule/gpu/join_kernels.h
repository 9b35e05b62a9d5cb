#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "schedule/writer/scheduled_kernel.h"
#include "tile/check/fits.h"

namespace weft {

/// Whether a kernel can be a stage of a larger one, between barriers of the grid: its blocks may be
/// any number, and what a block keeps spans no barrier. A loop may be one of a cluster.
Decision can_join(const ScheduledKernel& kernel);

/// A kernel on its way into a larger one.
struct JoinMember {
  const ScheduledKernel* kernel = nullptr;
  Residency own;             ///< of its blocks, alone
  int64_t items = 0;         ///< that its blocks go through, in its largest phase
  int64_t level = 0;         ///< of barriers before it
  bool computes = false;     ///< a product or convolution of the model
  int64_t kept_bytes = 0;    ///< that its blocks have on chip, and do not ask memory for
  double apart_us = 0;       ///< of its kernel in a launch of its own, where it may be another
  bool is_loop = false;      ///< it runs all iterations of a loop, between the others of its level
  int64_t barriers = 0;      ///< of a loop: of the grid, that its blocks meet at in all
  int64_t least_blocks = 0;  ///< that a launch has to have: those that keep what it reads
};
/// Requires: can_join.
JoinMember join_member(const ScheduledKernel& kernel, const Target& target);

/// What is known of kernels one after another on the same blocks before there is their program
/// (Souffle §5.3, AStitch §4.3).
struct JoinEstimate {
  int64_t blocks = 0;    ///< all on the device at once
  int64_t per_sm = 0;    ///< of them on an SM
  int64_t phases = 1;    ///< between barriers
  int64_t barriers = 0;  ///< between phases, and in the iterations of loops
  double microseconds = 0;
  double start_us = 0;  ///< of these, what the launch takes beyond work and barriers
  double saved_us = 0;  ///< launches, less barriers, idle threads and turns that are not full
};

/// Of kernels that run again and again, `working_set` is the bytes that each iteration touches:
/// what does not change stays in the second-level cache where that holds all of it, and comes from
/// memory each time where it does not. On a cluster (schedule/gpu/cluster_device.h) its blocks wait
/// at barriers of the cluster. Error (kUnsupported): why they cannot share a launch.
Result<JoinEstimate> estimate_join(std::span<const JoinMember> members, const Target& target,
                                   int64_t working_set = 0);

/// Bytes of a block's arena, in all, with which an SM still holds as many of the program's blocks
/// as it has to (TileProgram::per_sm).
int64_t room_for_arena(const ScheduledKernel& kernel, const Target& target);

/// What blocks of one launch do with what they have on chip.
struct OnChip {
  /// Boxes that a later kernel of the launch reads in the same block stay there, as far as its
  /// memory holds them (tile/rewrite/reuse_boxes.h); else all is read again.
  bool keeps = true;
  /// The first loads of what no kernel of the launch makes stand before barriers
  /// (tile/rewrite/load_ahead.h).
  bool ahead = true;
  /// Outputs of members that nothing but the launch reads: not stored where all readers find them.
  std::set<TensorId> own;
};

/// The kernels one after another in one launch, by ascending levels, with a barrier of the grid
/// before what reads what an earlier one stores; on a cluster all blocks form it. Loops
/// (repeat_kernels) may be among them.
///     p = x W   barrier   each step { h = f(p[t], h) barrier }   y = rows of all h `outputs[m]`
///     are the tensors that member m stores.
/// Outputs that are no longer stored are none of the result's parameters.
/// Error (kUnsupported): the blocks do not all fit on the device, by how much.
Result<ScheduledKernel> join_kernels(std::span<const JoinMember> members,
                                     const std::vector<std::vector<TensorId>>& outputs,
                                     const JoinEstimate& estimate, const std::string& name,
                                     const Target& target, const OnChip& on_chip);

}  // namespace weft
