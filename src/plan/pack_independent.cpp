#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "plan/fusion_plan.h"
#include "plan/schedule_members.h"
#include "plan/step_order.h"
#include "schedule/gpu/pack_kernels.h"
#include "tile/check/fits.h"

namespace weft {

namespace {

constexpr size_t kReach = 512;  ///< steps of the order that a kernel may run earlier
constexpr int64_t kShareOfCache =
    32;  ///< of the second level: what runs earlier may make that much
constexpr size_t kMostMembers = 8;

/// A kernel that leaves most of the device idle. What it makes may wait for its readers.
bool is_small(const ScheduledKernel& kernel, const Target& target) {
  return can_pack(kernel) &&
         2 * busy_share(kernel.program.blocks.constant(), kernel.program.warps, target) <= 1 &&
         kernel.estimate.bytes_written * kShareOfCache <= target.l2_bytes;
}

/// Members of one launch, as long as the device holds all blocks at once and is not busy.
class Pack {
 public:
  Pack(const Target& target) : target_(target) {}

  bool takes(const ScheduledKernel& kernel) const {
    return members_.size() < kMostMembers && is_small(kernel, target_) && fits_beside(kernel);
  }
  /// `apart_us`: what it takes in a launch of its own.
  void add(int32_t number, ScheduledKernel kernel, double apart_us) {
    numbers.push_back(number);
    blocks_ += kernel.program.blocks.constant();
    apart_us_ += apart_us;
    members_.push_back(std::move(kernel));
  }
  Result<ScheduledKernel> together(const std::string& name) const {
    std::vector<const ScheduledKernel*> members;
    for (const ScheduledKernel& k : members_) members.push_back(&k);
    return pack_kernels(members, name, target_);
  }
  double saved_us(const ScheduledKernel& together) const {
    return apart_us_ - together.estimate.microseconds;
  }
  std::string reason(const ScheduledKernel& together) const {
    std::string blocks;
    for (const ScheduledKernel& k : members_)
      blocks += fmt::format("{}{}", blocks.empty() ? "" : " + ", k.program.blocks.constant());
    return fmt::format("independent, {} blocks on {} SMs, saves {:.1f} us", blocks,
                       target_.sm_count, saved_us(together));
  }

  std::vector<int32_t> numbers;  ///< of the members, in the plan

 private:
  /// Whether all blocks are on the device at once, each with the most that one of them needs, and
  /// leave it room. Warps that a narrower member leaves over compute copies: not of what the block
  /// keeps in its arena, which they would write, too.
  bool fits_beside(const ScheduledKernel& kernel) const {
    Residency most = residency(kernel.program, kernel.scopes, target_);
    int64_t least_warps = kernel.program.warps, most_warps = least_warps,
            arena = kernel.scopes.block_bytes;
    for (const ScheduledKernel& k : members_) {
      const Residency own = residency(k.program, k.scopes, target_);
      most.threads = std::max(most.threads, own.threads);
      most.registers = std::max(most.registers, own.registers);
      most.shared_bytes = std::max(most.shared_bytes, own.shared_bytes);
      least_warps = std::min(least_warps, k.program.warps);
      most_warps = std::max(most_warps, k.program.warps);
      arena = std::max(arena, k.scopes.block_bytes);
    }
    if (most_warps != least_warps && arena > 0) return false;
    const int64_t registers =
        std::min<int64_t>(most.registers + kOperandRegisters, target_.registers_per_thread);
    const int64_t blocks = blocks_ + kernel.program.blocks.constant();
    return busy_share(blocks, most_warps, target_) <= 1 &&
           blocks <= target_.sm_count * resident_blocks_per_sm(target_, most.threads, registers,
                                                               most.shared_bytes);
  }

  const Target& target_;
  std::vector<ScheduledKernel> members_;
  int64_t blocks_ = 0;
  double apart_us_ = 0;
};

class Packing {
 public:
  Packing(const TensorProgram& program, const Target& target, FusionPlan* plan)
      : program_(program),
        target_(target),
        plan_(*plan),
        order_(program, *plan),
        gone_(plan->order.size(), false),
        members_(plan->kernels.size()) {}

  Status run() {
    return replace_kernels(plan_, gone_, [&](size_t s) { return kernel_at(s); });
  }

 private:
  PlannedKernel& planned(int32_t k) { return plan_.kernels[static_cast<size_t>(k)]; }

  /// The kernel of a step, with those that join it.
  Result<PlannedKernel> kernel_at(size_t s) {
    const int32_t first = plan_.order[s].index;
    Pack pack(target_);
    std::vector<size_t> joined;
    for (size_t j = s + 1; j < plan_.order.size() && j <= s + kReach; ++j) {
      if (gone_[j] || plan_.order[j].opaque || !order_.ready(plan_.order[j].index, s)) continue;
      const int32_t later = plan_.order[j].index;
      if (pack.numbers.empty()) {
        WEFT_ASSIGN_OR_RETURN(const bool begun, join(&pack, first));
        if (!begun) break;
      }
      WEFT_ASSIGN_OR_RETURN(const bool joins, join(&pack, later));
      if (joins) joined.push_back(j);
    }
    if (joined.empty()) return std::move(planned(first));
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel schedule, pack.together(planned(first).name));
    if (pack.saved_us(schedule) <= 0) return std::move(planned(first));
    for (const size_t j : joined) {
      gone_[j] = true;
      order_.move(plan_.order[j].index, s);
    }
    PlannedKernel out = united(plan_.kernels, pack.numbers);
    out.packed_because = pack.reason(schedule);
    out.schedule = std::move(schedule);
    return out;
  }

  Result<bool> join(Pack* pack, int32_t number) {
    PlannedKernel& kernel = planned(number);
    if (kernel.is_call) return false;
    std::optional<ScheduledKernel>& member = members_[static_cast<size_t>(number)];
    if (!member) {
      WEFT_ASSIGN_OR_RETURN(
          member, packable(program_, kernel.group, kernel.name, target_, kernel.schedule));
    }
    if (!pack->takes(*member)) return false;
    pack->add(number, *member, kernel.schedule.estimate.microseconds);
    return true;
  }

  const TensorProgram& program_;
  const Target& target_;
  FusionPlan& plan_;
  StepOrder order_;
  std::vector<bool> gone_;                               ///< by step: runs with an earlier one
  std::vector<std::optional<ScheduledKernel>> members_;  ///< by kernel, once it was asked for
};

}  // namespace

Status pack_independent(const TensorProgram& program, const Target& target, FusionPlan& plan) {
  if (!target.is_gpu()) return {};
  return Packing(program, target, &plan).run();
}

}  // namespace weft
