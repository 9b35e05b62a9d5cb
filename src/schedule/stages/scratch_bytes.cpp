#include "schedule/stages/scratch_bytes.h"

#include <algorithm>

#include "schedule/cpu/choose_panel.h"
#include "schedule/cpu/panel_fit.h"
#include "support/rounding.h"

namespace weft {

namespace {

constexpr int64_t kAlignment = 64;  ///< of a buffer

/// Of what a block has of a member.
int64_t box_bytes(const BlockSpace& space, const DemandBoxes& demand, int p) {
  const DType type = space.program().tensors[static_cast<size_t>(space.expr(p).output)].type.dtype;
  int64_t bytes = byte_size(type);
  for (const BoxAxis& axis : demand.members[static_cast<size_t>(p)].box) bytes *= axis.extent;
  return round_up(bytes, kAlignment);
}

int stage_of(const Stages& stages, int p) {
  const auto found = std::ranges::find_if(
      stages.members, [&](const auto& members) { return std::ranges::binary_search(members, p); });
  return static_cast<int>(found - stages.members.begin());
}

/// The last stage at which what `p` makes is needed: readers of more loops come again in each
/// iteration of these.
int last_stage(const BlockSpace& space, const Stages& stages, int p) {
  const int made = stage_of(stages, p);
  int last = made;
  for (const int reader : space.readers(p)) {
    int at = stage_of(stages, reader);
    const int level = stages.levels[static_cast<size_t>(at)];
    while (level > stages.levels[static_cast<size_t>(made)] &&
           at + 1 < static_cast<int>(stages.levels.size()) &&
           stages.levels[static_cast<size_t>(at) + 1] == level)
      ++at;
    last = std::max(last, at);
  }
  return last;
}

/// Of a stage that multiplies, the panel that it stages of an operand: all of the depth, a tile's
/// vectors.
int64_t panel_bytes(const BlockSpace& space, const DemandBoxes& demand,
                    const std::vector<int>& members, const Target& target) {
  if (std::ranges::none_of(members, [&](int p) { return space.expr(p).is_contraction; })) return 0;
  const Target core = inside_block(target);
  const auto stage = GroupSpace::of_stage(space.program(), stage_group(space, members), core,
                                          demand.boxes(processors(target)));
  if (!stage.ok() || fits_panel(*stage).kind != Fit::Kind::kBuilds) return 0;
  const PanelChoice choice = choose_panel(*stage, core);
  if (choice.staged_read < 0 && choice.staged_factor < 0) return 0;
  int64_t depth = 1;
  for (const int a : choice.inner) depth *= stage->axes().axes[static_cast<size_t>(a)].extent;
  return round_up(depth * choice.vectors * choice.lanes * 4, kAlignment);
}

}  // namespace

int64_t scratch_bytes(const BlockSpace& space, const DemandBoxes& demand, const Stages& stages,
                      const Target& target) {
  int64_t carried = 0;
  std::vector<int64_t> live(stages.members.size(), 0);
  const std::vector<bool> is_handed_on = handed_on(space, stages);
  for (int p = 0; p < space.size(); ++p) {
    const int64_t bytes = box_bytes(space, demand, p);
    if (space.is_carried(p)) {
      carried += bytes;
    } else if (is_handed_on[static_cast<size_t>(p)]) {
      for (int s = stage_of(stages, p); s <= last_stage(space, stages, p); ++s)
        live[static_cast<size_t>(s)] += bytes;
    }
  }
  int64_t most = 0;
  for (size_t s = 0; s < live.size(); ++s)
    most = std::max(most, live[s] + panel_bytes(space, demand, stages.members[s], target));
  return carried + most;
}

}  // namespace weft
