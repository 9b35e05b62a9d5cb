#pragma once

#include <vector>

#include "group/group_space.h"
#include "schedule/stages/block_space.h"

namespace weft {

/// Stages of a block: each is members that one template makes in loops of their own, in the order
/// in which they run.
struct Stages {
  std::vector<std::vector<int>> members;  ///< by stage, ascending positions
  std::vector<int> levels;                ///< by stage: loops of the partition around it
};

/// By member, whether another stage than its own reads it.
std::vector<bool> handed_on(const BlockSpace& space, const Stages& stages);

/// The device as one block of a kernel sees it: alone, without waiting for others. Of a GPU one SM,
/// with its share of rates and caches.
Target inside_block(Target target);

/// Cores or SMs that blocks are shared among.
int processors(const Target& target);

/// The members as a group of their own, whose outputs are what others read or memory must have.
Group stage_group(const BlockSpace& space, const std::vector<int>& members);

/// Puts each member into the first stage behind its producers that holds it, else into a new one.
/// Those of fewer loops run before those of more. Error (kUnsupported): a member that no template
/// makes alone in its box, with the reason. `like` (may be null) are the stages of other boxes,
/// which a CPU's blocks take where they hold: what shares a stage there seldom hangs on boxes, and
/// asking for each member takes many times as long.
Result<Stages> form_stages(const BlockSpace& space, const DemandBoxes& demand, const Target& target,
                           const Stages* like = nullptr);

/// The loops around each stage that a composition lists. Error (kInvalidInput): what is not made,
/// made twice, or read before it is made.
Result<Stages> given_stages(const BlockSpace& space, const DemandBoxes& demand,
                            const std::vector<std::vector<int>>& members);

}  // namespace weft
