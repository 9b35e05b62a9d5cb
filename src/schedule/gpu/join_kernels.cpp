#include "schedule/gpu/join_kernels.h"

#include <algorithm>

#include "cost/gpu_latency.h"
#include "fmt/format.h"
#include "schedule/gpu/pack_kernels.h"
#include "schedule/writer/launch_members.h"
#include "support/rounding.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/analysis/loads_ahead.h"
#include "tile/analysis/same_blocks.h"
#include "tile/check/fits.h"
#include "tile/rewrite/load_ahead.h"
#include "tile/rewrite/prune_symbols.h"
#include "tile/rewrite/reuse_boxes.h"

namespace weft {

namespace {

bool has_cluster_or_pack(const TileBody& body) {
  return std::ranges::any_of(body, [](const TileNode& node) {
    if (node.kind == TileNode::Kind::kPack) return true;
    return node.kind == TileNode::Kind::kLoop &&
           (node.loop->kind == TileLoop::Kind::kCluster || node.loop->by_cluster ||
            has_cluster_or_pack(node.loop->body));
  });
}

/// The recurrence that a node of a program's body is; null.
const TileLoop* recurrence_at(const TileProgram& program, int32_t n) {
  if (static_cast<size_t>(n) >= program.body.size()) return nullptr;
  const TileNode& node = program.body[static_cast<size_t>(n)];
  const bool recurs = node.kind == TileNode::Kind::kLoop && is_recurrence(*node.loop);
  return recurs ? node.loop.get() : nullptr;
}

/// Items of the largest phase; 0 where a number is not known.
int64_t most_items(const ScheduledKernel& kernel) {
  int64_t most = 0, items = 0;
  bool known = true;
  const auto add = [&](const TileNode& nest, const std::vector<int32_t>& path) {
    const bool barrier = std::ranges::any_of(kernel.scopes.barriers, [&](const BarrierPoint& b) {
      return b.scope == Scope::kGrid && b.before == path;
    });
    const int64_t own = grid_items(nest);
    known &= own > 0;
    items = (barrier ? 0 : items) + own;
    most = std::max(most, items);
  };
  for (int32_t n = 0; n < static_cast<int32_t>(kernel.program.body.size()); ++n) {
    const TileLoop* loop = recurrence_at(kernel.program, n);
    if (loop == nullptr) add(kernel.program.body[static_cast<size_t>(n)], {n});
    for (int32_t i = 0; loop != nullptr && i < static_cast<int32_t>(loop->body.size()); ++i)
      add(loop->body[static_cast<size_t>(i)], {n, i});
  }
  return known ? most : 0;
}

/// Barriers of the grid that its blocks meet at as it runs, those of each step of a recurrence.
int64_t barriers_met(const TileProgram& program, const ScopeAnalysis& scopes) {
  int64_t met = 0;
  for (const BarrierPoint& barrier : scopes.barriers) {
    if (barrier.scope != Scope::kGrid) continue;
    const TileLoop* loop =
        barrier.before.size() > 1 ? recurrence_at(program, barrier.before[0]) : nullptr;
    met += loop == nullptr ? 1 : loop->dims[0].end.constant() - loop->dims[0].begin.constant();
  }
  return met;
}

/// Blocks that the largest nest has whose blocks keep what a later one reads; 0 where none does.
int64_t blocks_that_keep(const ScheduledKernel& kernel) {
  if (kernel.program.body.size() == 1 && recurrence_at(kernel.program, 0) == nullptr)
    return 0;  // a single nest, whose structure is not looked at
  int64_t most = 0;
  for (const NestPath& nest : nests_of_kept(structure_of(kernel.program), kernel.scopes)) {
    const TileNode& top = kernel.program.body[static_cast<size_t>(nest[0])];
    most = std::max(
        most, grid_items(nest.size() == 1 ? top : top.loop->body[static_cast<size_t>(nest[1])]));
  }
  return most;
}

/// What a loop in a launch of its own takes beside launch and barriers.
double steps_us(const JoinMember& loop, const Target& target) {
  const TileProgram& program = loop.kernel->program;
  const int64_t own = program.blocks.is_const(1) ? 0 : loop.barriers;
  const double barrier =
      meeting_us(program, program.blocks.is_const() ? program.blocks.constant() : 1, target);
  return std::max(0.0, loop.kernel->estimate.microseconds - target.launch_us -
                           static_cast<double>(own) * barrier);
}

/// What a member takes longer on `blocks` blocks that stay than on its own, which come and go: its
/// turns, each of which takes longer where more warps of an SM than keep it busy share it.
double slowdown(const JoinMember& member, int64_t blocks, const Target& target) {
  const int64_t warps = member.kernel->program.warps;
  const int64_t resident = std::max<int64_t>(member.own.blocks_per_sm * target.sm_count, 1);
  const auto turns = [&](int64_t at_once) {
    const double busy = busy_share(std::min(member.items, at_once), warps, target);
    return static_cast<double>(ceil_div(member.items, at_once)) * std::max(1.0, busy);
  };
  return std::max(1.0, turns(blocks) / turns(resident));
}

/// What a member asks memory for, reads and writes.
int64_t asked_bytes(const JoinMember& member) {
  const Estimate& e = member.kernel->estimate;
  return std::max<int64_t>(e.bytes_read + e.bytes_written - member.kept_bytes, 0);
}

/// What it takes beyond its launch: less memory is asked, in the same pattern.
double own_work_us(const JoinMember& member, const Target& target) {
  const double all = work_us(*member.kernel, target);
  const Estimate& e = member.kernel->estimate;
  const int64_t bytes = e.bytes_read + e.bytes_written;
  if (member.kept_bytes == 0 || bytes == 0) return all;
  const double share = static_cast<double>(asked_bytes(member)) / static_cast<double>(bytes);
  return std::max(all * share, std::min(all, e.arithmetic_us));
}

/// The part of the device that it keeps from those beside it: threads, or what its arithmetic and
/// its bytes, at the rate at which all of them come, ask for in the time that it takes alone.
double part_of_device(const JoinMember& member, int64_t blocks, double alone_us, double gb_per_s,
                      const Target& target) {
  const double least = std::max(member.kernel->estimate.arithmetic_us,
                                static_cast<double>(asked_bytes(member)) / (gb_per_s * 1e3));
  const double threads =
      busy_share(std::min(member.items, blocks), member.kernel->program.warps, target);
  return std::min(1.0, std::max(threads, alone_us > 0 ? least / alone_us : 0));
}

}  // namespace

Decision can_join(const ScheduledKernel& kernel) {
  const TileProgram& program = kernel.program;
  if (kernel.library || !kernel.orders.empty()) return Decision::forbid("a library runs it");
  if (program.cpu) return Decision::forbid("it is a CPU's");
  if (!program.blocks.is_const() || !has_constant_shapes(program) || most_items(kernel) == 0)
    return Decision::forbid("its blocks are not counted");
  if (has_cluster_or_pack(program.body))
    return Decision::forbid("it is packed, or runs on clusters");
  const bool inside = std::ranges::any_of(kernel.scopes.barriers, [&](const BarrierPoint& b) {
    const size_t nests = recurrence_at(program, b.before[0]) != nullptr ? 2 : 1;
    return b.scope == Scope::kGrid && b.before.size() > nests;
  });
  if (inside) return Decision::forbid("a block keeps values across a barrier of its own");
  return Decision::allow();
}

JoinMember join_member(const ScheduledKernel& kernel, const Target& target) {
  JoinMember out;
  out.kernel = &kernel;
  out.own = residency(kernel.program, kernel.scopes, target);
  out.items = most_items(kernel);
  out.apart_us = kernel.estimate.microseconds;
  for (int32_t n = 0; n < static_cast<int32_t>(kernel.program.body.size()); ++n)
    out.is_loop |= recurrence_at(kernel.program, n) != nullptr;
  if (out.is_loop) {
    out.barriers = barriers_met(kernel.program, kernel.scopes);
    // What it copies once lies side by side in front of its steps.
    out.items = std::min(out.items, kernel.program.blocks.constant());
  }
  out.least_blocks = blocks_that_keep(kernel);
  return out;
}

Result<JoinEstimate> estimate_join(std::span<const JoinMember> members, const Target& target,
                                   int64_t working_set) {
  Residency most;
  int64_t most_warps = 0;
  std::vector<int64_t> items, bytes;  // by level
  for (const JoinMember& member : members) {
    most.registers = std::max(most.registers, member.own.registers);
    most.shared_bytes = std::max(most.shared_bytes, member.own.shared_bytes);
    most_warps = std::max(most_warps, member.kernel->program.warps);
    const auto level = static_cast<size_t>(member.level);
    if (items.size() <= level) {
      items.resize(level + 1, 0);
      bytes.resize(level + 1, 0);
    }
    items[level] += member.items;
    if (!member.is_loop) bytes[level] += asked_bytes(member);
  }
  JoinEstimate out;
  out.phases = static_cast<int64_t>(items.size());
  const int64_t registers =
      std::min<int64_t>(most.registers + kOperandRegisters, target.registers_per_thread);
  const int64_t held =
      resident_blocks_per_sm(target, most_warps * 32, registers, most.shared_bytes);
  if (held == 0) return unsupported("an SM holds no block of them");
  const int64_t most_items = *std::ranges::max_element(items);
  out.per_sm = std::min(held, ceil_div(most_items, target.sm_count));
  out.blocks = std::min(most_items, out.per_sm * target.sm_count);
  for (const JoinMember& member : members) {
    if (out.blocks < member.least_blocks)
      return unsupported("blocks that keep what a loop reads are more than there is room for");
  }
  std::vector<double> longest(items.size(), 0), shared(items.size(), 0);
  double apart = 0, start = 0;  // what a launch takes beyond its work
  double steps = 0;             // of loops
  out.barriers = out.phases - 1;
  for (const JoinMember& member : members) {
    const auto level = static_cast<size_t>(member.level);
    if (member.is_loop) {
      // Its first barrier and the one behind it are those between the phases around it.
      out.barriers += member.barriers - (level > 0 ? 1 : 0) - (level + 1 < items.size() ? 1 : 0);
      steps += steps_us(member, target) * slowdown(member, out.blocks, target);
      apart += member.apart_us;
      start = std::max(start, target.launch_us);
      continue;
    }
    const double gb_per_s = target.bandwidth_gb_per_s(std::max(bytes[level], working_set));
    double alone = own_work_us(member, target);
    if (working_set > 0)
      alone = std::max(alone, static_cast<double>(asked_bytes(member)) / (gb_per_s * 1e3));
    const double work = alone * slowdown(member, out.blocks, target);
    longest[level] = std::max(longest[level], work);
    shared[level] += work * part_of_device(member, out.blocks, alone, gb_per_s, target);
    const double launch = member.kernel->estimate.microseconds - work_us(*member.kernel, target);
    apart += member.apart_us;
    start = std::max(start, launch);
  }
  out.start_us = start;
  const bool loops = std::ranges::any_of(members, &JoinMember::is_loop);
  const bool waits = !loops || out.blocks > 1;
  out.microseconds =
      start + steps +
      (waits ? static_cast<double>(out.barriers) * target.meeting_us(out.per_sm) : 0);
  for (size_t l = 0; l < items.size(); ++l) out.microseconds += std::max(longest[l], shared[l]);
  out.saved_us = apart - out.microseconds;
  return out;
}

int64_t room_for_arena(const ScheduledKernel& kernel, const Target& target) {
  constexpr int64_t kStep = 256;
  const Residency block = residency(kernel.program, kernel.scopes, target);
  const int64_t wanted = std::max<int64_t>(kernel.program.per_sm, 1);
  int64_t most = target.shared_bytes_per_block;
  while (most > 0 && resident_blocks_per_sm(target, block.threads, block.registers, most) < wanted)
    most -= kStep;
  return most - (block.shared_bytes - kernel.scopes.block_bytes);
}

namespace {

/// Keeps on chip what fits: buffers that live at other times leave gaps, so that less may.
Status keep_boxes(ScheduledKernel& kernel, const Target& target) {
  for (int64_t room = room_for_arena(kernel, target); room > 0; room = room * 3 / 4) {
    TileProgram program = kernel.program;
    WEFT_ASSIGN_OR_RETURN(const bool changed, reuse_boxes(program, room));
    if (!changed) return {};
    WEFT_ASSIGN_OR_RETURN(ScopeAnalysis scopes, derive_scopes(program));
    if (!fits(program, scopes, target)) continue;
    kernel.program = std::move(program);
    kernel.scopes = std::move(scopes);
    return {};
  }
  return {};
}

/// Loads ahead of barriers what may go, where as many blocks stay on an SM: what a block keeps may
/// lie where the loads would.
Status load_what_waits(ScheduledKernel& kernel, const Target& target) {
  std::vector<std::vector<int32_t>> loops;
  for (const LoopAhead& loop :
       loops_ahead(structure_of(kernel.program), kernel.scopes, /*marked=*/false))
    loops.push_back(loop.path);
  const auto try_loops = [&](const std::vector<std::vector<int32_t>>& paths) -> Result<bool> {
    TileProgram program = kernel.program;
    load_ahead(program, paths);
    WEFT_ASSIGN_OR_RETURN(ScopeAnalysis scopes, derive_scopes(program));
    if (!fits(program, scopes, target)) return false;
    kernel.program = std::move(program);
    kernel.scopes = std::move(scopes);
    return true;
  };
  if (loops.empty() && !has_loop_ahead(kernel.program.body)) return {};
  WEFT_ASSIGN_OR_RETURN(const bool all, try_loops(loops));
  if (all) return {};
  std::vector<std::vector<int32_t>> fitting;
  for (std::vector<int32_t>& loop : loops) {
    fitting.push_back(std::move(loop));
    WEFT_ASSIGN_OR_RETURN(const bool fit, try_loops(fitting));
    if (!fit) fitting.pop_back();
  }
  return {};
}

/// The members with what each finds on chip; their nests stand in their order.
std::vector<JoinMember> note_kept_bytes(std::span<const JoinMember> members,
                                        const ScheduledKernel& launch) {
  const BoxReuse reuse = reuse_of(launch.program, launch.scopes);
  std::vector<JoinMember> out(members.begin(), members.end());
  size_t nest = 0;
  for (JoinMember& member : out) {
    member.kept_bytes = 0;
    for (size_t n = 0; n < member.kernel->program.body.size(); ++n, ++nest) {
      if (nest < reuse.saved_by_nest.size()) member.kept_bytes += reuse.saved_by_nest[nest];
    }
  }
  return out;
}

/// Of a launch with loops, what its barriers take beyond those that were counted before there was
/// its program.
double other_barriers_us(std::span<const JoinMember> members, const JoinEstimate& estimate,
                         const ScheduledKernel& launch, const Target& target) {
  if (std::ranges::none_of(members, &JoinMember::is_loop) || estimate.blocks == 1) return 0;
  const int64_t met = barriers_met(launch.program, launch.scopes);
  return static_cast<double>(met - estimate.barriers) * target.meeting_us(estimate.per_sm);
}

/// Outputs that nothing reads any more are no parameters.
Status drop_own_outputs(const std::set<TensorId>& own, ScheduledKernel& kernel) {
  std::set<size_t> parameters;
  for (size_t p = 0; p < kernel.parameters.size(); ++p) {
    if (own.count(kernel.parameters[p]) != 0) parameters.insert(p);
  }
  const std::set<size_t> gone = drop_outputs(kernel.program, parameters);
  if (gone.empty()) return {};
  std::vector<TensorId> left;
  for (size_t p = 0; p < kernel.parameters.size(); ++p) {
    if (gone.count(p) == 0) left.push_back(kernel.parameters[p]);
  }
  kernel.parameters = std::move(left);
  WEFT_ASSIGN_OR_RETURN(kernel.scopes, derive_scopes(kernel.program));
  return {};
}

}  // namespace

Result<ScheduledKernel> join_kernels(std::span<const JoinMember> members,
                                     const std::vector<std::vector<TensorId>>& outputs,
                                     const JoinEstimate& estimate, const std::string& name,
                                     const Target& target, const OnChip& on_chip) {
  std::vector<const ScheduledKernel*> kernels;
  for (const JoinMember& member : members) kernels.push_back(member.kernel);
  ScheduledKernel out = members_in_turn(kernels, outputs, name, estimate.blocks);
  out.estimate.microseconds = estimate.microseconds;
  out.program.per_sm = estimate.per_sm;
  out.program.one_cluster = target.one_cluster;
  if (target.one_cluster) {
    out.composition.kind = Composition::Kind::kCluster;
    out.composition.cluster_blocks = estimate.blocks;
  }
  WEFT_ASSIGN_OR_RETURN(out.scopes, derive_scopes(out.program));
  if (Decision fit = fits(out.program, out.scopes, target); !fit) return unsupported(fit.reason());
  out.estimate.microseconds += other_barriers_us(members, estimate, out, target);
  if (on_chip.keeps) {
    WEFT_RETURN_IF_ERROR(keep_boxes(out, target));
    WEFT_RETURN_IF_ERROR(drop_own_outputs(on_chip.own, out));
    std::vector<JoinMember> keeping = note_kept_bytes(members, out);
    WEFT_ASSIGN_OR_RETURN(const JoinEstimate kept, estimate_join(keeping, target));
    out.estimate.microseconds = kept.microseconds + other_barriers_us(members, kept, out, target);
  }
  if (on_chip.ahead) {
    WEFT_RETURN_IF_ERROR(load_what_waits(out, target));
    out.estimate.microseconds -= hidden_by_barriers_us(out.program, out.scopes, target);
  }
  return out;
}

}  // namespace weft
