#include "schedule/gpu/pack_kernels.h"

#include <algorithm>

#include "cost/estimate.h"
#include "schedule/writer/launch_members.h"
#include "target/gpu_rates.h"
#include "tile/analysis/derive_scopes.h"

namespace weft {

namespace {

bool has_cluster(const TileBody& body) {
  return std::ranges::any_of(body, [](const TileNode& node) {
    return node.kind == TileNode::Kind::kLoop &&
           (node.loop->kind == TileLoop::Kind::kCluster || has_cluster(node.loop->body));
  });
}

}  // namespace

double work_us(const ScheduledKernel& kernel, const Target& target) {
  // Models of their own know no end of a launch, programs and the cost model do.
  const double starts = target.launch_us + (kernel.predicted_us ? 0 : target.end_us());
  return std::max(0.0, kernel.estimate.microseconds - starts);
}

double busy_share(int64_t blocks, int64_t warps, const Target& target) {
  return static_cast<double>(blocks * warps * 32) /
         (kBusyThreads * static_cast<double>(target.sm_count));
}

Decision can_pack(const ScheduledKernel& kernel) {
  const TileProgram& program = kernel.program;
  if (kernel.library) return Decision::forbid("a library runs it");
  if (program.cpu || !program.blocks.is_const())
    return Decision::forbid("its blocks are not counted");
  const bool waits = std::ranges::any_of(kernel.scopes.barriers, [](const BarrierPoint& b) {
    return b.scope == Scope::kGrid || b.scope == Scope::kCluster;
  });
  // Without that, how many blocks an SM should hold is but a wish.
  if (program.body.size() != 1 || waits || has_cluster(program.body))
    return Decision::forbid("its blocks wait for each other");
  if (program.body[0].kind == TileNode::Kind::kPack) return Decision::forbid("it is packed");
  if (grid_items(program.body[0]) != program.blocks.constant())
    return Decision::forbid("a block goes through several of its items");
  return Decision::allow();
}

Result<ScheduledKernel> pack_kernels(const std::vector<const ScheduledKernel*>& members,
                                     const std::string& name, const Target& target) {
  double longest = 0, work = 0, shared = 0, in_turn = target.launch_us;
  std::vector<int64_t> blocks;
  for (const ScheduledKernel* member : members) {
    blocks.push_back(member->program.blocks.constant());
    longest = std::max(longest, member->estimate.microseconds);
    work = std::max(work, work_us(*member, target));
    in_turn += work_us(*member, target);
    shared += work_us(*member, target) *
              std::min(1.0, busy_share(blocks.back(), member->program.warps, target));
  }
  ScheduledKernel out = members_side_by_side(members, blocks, name);
  const Estimate& all = out.estimate;
  const double device =
      std::max(shared, roofline_us(all.bytes_read + all.bytes_written, all.arithmetic_us, target));
  // Blocks of one member after those of another are no worse than launches of each.
  out.estimate.microseconds = std::min(longest + std::max(0.0, device - work), in_turn);
  WEFT_ASSIGN_OR_RETURN(out.scopes, derive_scopes(out.program));
  return out;
}

}  // namespace weft
