#include "schedule/stages/form_stages.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "schedule/leaf/template_table.h"

namespace weft {

namespace {

class Former {
 public:
  Former(const BlockSpace& space, const DemandBoxes& demand, const Target& target)
      : space_(space),
        demand_(demand),
        target_(inside_block(target)),
        boxes_(demand.boxes(processors(target))) {}

  Result<Stages> run(const Stages* like) {
    if (like != nullptr && !target_.is_gpu() && holds_as(*like)) return *like;
    for (int p = 0; p < space_.size(); ++p) WEFT_RETURN_IF_ERROR(place(p));
    return in_order();
  }

 private:
  Status place(int p) {
    const int level = demand_.members[static_cast<size_t>(p)].level;
    size_t first = 0;  // behind what it reads
    visit(space_.expr(p).body, [&](const Scalar& s) {
      const int producer = s.kind == Scalar::Kind::kRead ? space_.producer(s.symbol) : -1;
      if (producer < 0) return;
      const size_t stage = stage_of_[static_cast<size_t>(producer)];
      if (stages_.levels[stage] == level) first = std::max(first, stage);
    });
    for (size_t s = first; s < stages_.members.size(); ++s) {
      if (stages_.levels[s] != level) continue;
      std::vector<int> members = stages_.members[s];
      members.push_back(p);
      if (!holds(members)) continue;
      stages_.members[s] = std::move(members);
      stage_of_.push_back(s);
      return {};
    }
    if (const Decision alone = holds({p}); !alone) return unsupported(alone.reason());
    stage_of_.push_back(stages_.members.size());
    stages_.members.push_back({p});
    stages_.levels.push_back(level);
    return {};
  }

  /// Whether the stages are those of loops that these members stand in, and each holds.
  bool holds_as(const Stages& stages) const {
    for (size_t s = 0; s < stages.members.size(); ++s) {
      for (const int p : stages.members[s]) {
        if (demand_.members[static_cast<size_t>(p)].level != stages.levels[s]) return false;
      }
    }
    return std::ranges::all_of(stages.members, [&](const auto& m) { return bool(holds(m)); });
  }

  Decision holds(const std::vector<int>& members) const {
    const auto stage =
        GroupSpace::of_stage(space_.program(), stage_group(space_, members), target_, boxes_);
    return stage.ok() ? can_be_leaf(*stage, target_) : Decision::forbid(stage.error().message);
  }

  Stages in_order() const {
    std::vector<size_t> order(stages_.members.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](size_t s) { return std::pair(stages_.levels[s], s); });
    Stages out;
    for (const size_t s : order) {
      out.members.push_back(stages_.members[s]);
      out.levels.push_back(stages_.levels[s]);
    }
    return out;
  }

  const BlockSpace& space_;
  const DemandBoxes& demand_;
  const Target target_;
  const BlockBoxes boxes_;
  Stages stages_;
  std::vector<size_t> stage_of_;
};

}  // namespace

std::vector<bool> handed_on(const BlockSpace& space, const Stages& stages) {
  std::vector<bool> out(static_cast<size_t>(space.size()), false);
  for (const std::vector<int>& members : stages.members) {
    for (const int p : members) {
      out[static_cast<size_t>(p)] = std::ranges::any_of(space.readers(p), [&](int reader) {
        return !std::ranges::binary_search(members, reader);
      });
    }
  }
  return out;
}

int processors(const Target& target) {
  return target.is_gpu() ? target.sm_count : std::max(target.threads, 1);
}

Target inside_block(Target target) {
  if (target.is_gpu()) {
    const int sms = target.sm_count;
    for (double* peak : {&target.peak_gflops, &target.peak_f16_gflops, &target.peak_bf16_gflops,
                         &target.peak_tf32_gflops})
      *peak /= sms;
    for (Target::BandwidthPoint& point : target.bandwidth) {
      point.bytes /= sms;
      point.gb_per_s /= sms;
    }
    target.l2_bytes /= sms;
    target.launch_us = 0;
  }
  target.threads = 1;
  target.sm_count = 1;
  target.grid_barriers = false;
  target.cluster_blocks = 0;
  target.libraries.clear();
  return target;
}

Group stage_group(const BlockSpace& space, const std::vector<int>& members) {
  Group group;
  for (const int p : members) {
    group.exprs.push_back(p);
    const bool leaves = std::ranges::any_of(
        space.readers(p), [&](int reader) { return !std::ranges::binary_search(members, reader); });
    if (leaves || space.is_output(p) || space.is_carried(p))
      group.outputs.push_back(space.expr(p).output);
  }
  return group;
}

Result<Stages> form_stages(const BlockSpace& space, const DemandBoxes& demand, const Target& target,
                           const Stages* like) {
  return Former(space, demand, target).run(like);
}

Result<Stages> given_stages(const BlockSpace& space, const DemandBoxes& demand,
                            const std::vector<std::vector<int>>& members) {
  Stages out;
  out.members = members;
  std::vector<bool> made(static_cast<size_t>(space.size()), false);
  for (const std::vector<int>& stage : members) {
    int level = demand.over_blocks;
    for (const int p : stage) {
      if (p < 0 || p >= space.size() || made[static_cast<size_t>(p)])
        return invalid_input(fmt::format("v{} is no member that is left to make", p));
      made[static_cast<size_t>(p)] = true;
      level = std::max(level, demand.members[static_cast<size_t>(p)].level);
      bool ready = true;
      visit(space.expr(p).body, [&](const Scalar& s) {
        const int producer = s.kind == Scalar::Kind::kRead ? space.producer(s.symbol) : -1;
        ready &= producer < 0 || made[static_cast<size_t>(producer)];
      });
      if (!ready) return invalid_input(fmt::format("v{} is read before it is made", p));
    }
    if (!out.levels.empty() && level < out.levels.back())
      return invalid_input("a stage of fewer loops stands behind one of more");
    out.levels.push_back(level);
  }
  if (!std::ranges::all_of(made, [](bool m) { return m; }))
    return invalid_input("the stages do not make all members");
  return out;
}

}  // namespace weft
