#include "plan/share_cpu_launches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "cost/latency.h"
#include "fmt/format.h"
#include "plan/schedule_members.h"
#include "plan/step_order.h"
#include "schedule/cpu/share_launch.h"

namespace weft {

namespace {

/// Of one launch: what shares it is compiled as one function.
constexpr size_t kMostMembers = 16;
constexpr size_t kReach = 64;  ///< steps of the order between two kernels of a pack
/// The part of what kernels take apart that a launch saves at least. They stay what they are, so
/// that small differences count; what is closer is not worth code of its own. Where there is no
/// more code and starts are what is saved, any saving is certain.
constexpr double kWorthIt = 0.01;
/// The part of the second-level cache that the arena may grow by for a launch: all that its kernels
/// touch lives as long as the launch.
constexpr int64_t kShareOfCache = 16;
/// A run that one core makes in less wakes no other thread (assemble).
constexpr double kSerialRunUs = 25;

/// What is known of a kernel that may share a launch.
struct Member {
  bool alone = false;  ///< one thread makes all of it
  double start_us = 0;
};

/// Kernels that share a launch, in their order.
struct Launch {
  std::vector<size_t> steps;
  std::vector<int64_t> levels;  ///< of barriers before each
  double apart_us = 0;
};

class Sharing {
 public:
  Sharing(const TensorProgram& program, const Target& target, Joins joins, GroupKeys& keys,
          FusionPlan* plan)
      : program_(program),
        target_(target),
        fewest_(joins == Joins::kFewest),
        keys_(keys),
        plan_(*plan),
        order_(program, *plan),
        last_read_(last_reads()),
        gone_(plan->order.size(), false),
        members_(plan->order.size()) {}

  Status run() {
    double alone_us = 0;
    for (size_t s = 0; s < plan_.order.size(); ++s) {
      if (!plan_.order[s].opaque) alone_us += planned(s).schedule.estimate.microseconds;
    }
    if (!fewest_ && alone_us * std::max(target_.threads, 1) < kSerialRunUs) return {};
    for (size_t s = 0; s < plan_.order.size(); ++s) {
      members_[s] = member_at(s);
      if (members_[s]) ++alike_[keys_.of(planned(s).group).hash];
    }
    for (size_t s = 0; s < plan_.order.size(); ++s) WEFT_RETURN_IF_ERROR(begin_grid_at(s));
    for (size_t s = 0; s < plan_.order.size(); ++s) WEFT_RETURN_IF_ERROR(begin_pack_at(s));
    return replace_kernels(plan_, gone_, [&](size_t s) -> Result<PlannedKernel> {
      const auto launch = launches_.find(s);
      return std::move(launch == launches_.end() ? planned(s) : launch->second);
    });
  }

 private:
  PlannedKernel& planned(size_t step) {
    return plan_.kernels[static_cast<size_t>(plan_.order[step].index)];
  }

  /// Nothing where the kernel shares no launch.
  std::optional<Member> member_at(size_t step) {
    if (plan_.order[step].opaque) return std::nullopt;
    const PlannedKernel& kernel = planned(step);
    if (kernel.is_call || !kernel.members.empty() || !can_share_launch(kernel.schedule))
      return std::nullopt;
    // Chains have a key of their own group, too, and may be composed otherwise.
    if (kernel.schedule.composition.kind == Composition::Kind::kChain) return member_of(kernel);
    const auto [known, is_new] = known_.try_emplace(keys_.of(kernel.group).hash);
    if (is_new) known->second = member_of(kernel);
    return known->second;
  }
  Member member_of(const PlannedKernel& kernel) const {
    const Latency own = cpu_latency(kernel.schedule.program, kernel.schedule.scopes, target_);
    return {own.alone, own.start_us};
  }

  bool is_free(size_t step) const {
    return members_[step].has_value() && !gone_[step] && !launches_.contains(step);
  }

  /// Barriers before a kernel behind those of a launch.
  int64_t level_behind(const Launch& launch, size_t step) {
    int64_t level = 0;
    for (const TensorId t : planned(step).schedule.parameters) {
      for (size_t m = 0; m < launch.steps.size(); ++m) {
        const std::vector<TensorId>& made = planned(launch.steps[m]).group.outputs;
        if (std::ranges::find(made, t) != made.end()) level = std::max(level, launch.levels[m] + 1);
      }
    }
    return level;
  }

  /// The last step that reads each tensor.
  std::vector<size_t> last_reads() {
    std::vector<size_t> out(program_.tensors.size(), 0);
    for (size_t s = 0; s < plan_.order.size(); ++s) {
      const FusionPlan::Step& step = plan_.order[s];
      for (const TensorId t : step.opaque
                                  ? program_.opaques[static_cast<size_t>(step.index)].operands
                                  : planned(s).schedule.parameters)
        out[static_cast<size_t>(t)] = s;
    }
    return out;
  }

  /// What kernels that follow each other touch of the arena, beyond the most that is alive at one
  /// of them where each is a launch of its own.
  int64_t kept_longer(const Launch& launch) {
    std::map<TensorId, std::pair<size_t, size_t>> lives;  // first and last member
    for (size_t m = 0; m < launch.steps.size(); ++m) {
      const std::vector<TensorId>& made = planned(launch.steps[m]).group.outputs;
      for (const TensorId t : planned(launch.steps[m]).schedule.parameters) {
        const Tensor& tensor = program_.tensors[static_cast<size_t>(t)];
        if (tensor.kind != Tensor::Kind::kIntermediate || tensor.is_output) continue;
        const bool here = std::ranges::find(made, t) != made.end();
        const size_t last = last_read_[static_cast<size_t>(t)];
        const size_t behind = last > launch.steps.back() ? launch.steps.size() - 1 : m;
        auto& [first, until] = lives.try_emplace(t, here ? m : 0, m).first->second;
        until = std::max(until, behind);
      }
    }
    int64_t all = 0;
    std::vector<int64_t> alive(launch.steps.size(), 0);
    for (const auto& [t, life] : lives) {
      const TensorType& type = program_.tensors[static_cast<size_t>(t)].type;
      const int64_t bytes = element_count(type.shape).value_or(0) * byte_size(type.dtype);
      all += bytes;
      for (size_t m = life.first; m <= life.second; ++m) alive[m] += bytes;
    }
    return all - *std::ranges::max_element(alive);
  }

  bool is_worth_it(double saved_us, double apart_us, bool certain) const {
    return saved_us > (fewest_ || certain ? 0 : kWorthIt * apart_us);
  }

  /// Whether the plan has no other kernels like these, whose code they would share as kernels of
  /// their own.
  bool are_unlike_others(const std::vector<size_t>& steps) {
    return std::ranges::all_of(
        steps, [&](size_t s) { return alike_.at(keys_.of(planned(s).group).hash) == 1; });
  }

  /// What a launch saves before it is built: starts, and barriers between kernels side by side.
  double saved_us(const Launch& launch) const {
    double starts = 0;
    for (const size_t step : launch.steps) starts += members_[step]->start_us;
    if (members_[launch.steps[0]]->alone) return starts - members_[launch.steps[0]]->start_us;
    const int64_t phases = 1 + *std::ranges::max_element(launch.levels);
    return starts - target_.launch_us - static_cast<double>(phases) * target_.barrier_us;
  }

  /// Those that follow the kernel and are shared out to all threads, too, as long as it pays.
  Status begin_grid_at(size_t s) {
    if (!is_free(s) || (members_[s]->alone && !fewest_)) return {};
    Launch launch;
    for (size_t j = s; j < plan_.order.size() && launch.steps.size() < kMostMembers; ++j) {
      if (!is_free(j) || members_[j]->alone != members_[s]->alone) break;
      Launch with = launch;
      with.levels.push_back(level_behind(launch, j));
      with.steps.push_back(j);
      with.apart_us += planned(j).schedule.estimate.microseconds;
      if (j > s && !is_worth_it(saved_us(with), with.apart_us, are_unlike_others(with.steps)))
        break;
      if (!fewest_ && kept_longer(with) * kShareOfCache > target_.l2_bytes) break;
      launch = std::move(with);
    }
    if (launch.steps.size() < 2) return {};
    std::vector<size_t> by_level(launch.steps.size());
    std::iota(by_level.begin(), by_level.end(), 0);
    std::ranges::sort(by_level, {}, [&](size_t m) { return std::pair(launch.levels[m], m); });
    std::vector<size_t> steps;
    for (const size_t m : by_level) steps.push_back(launch.steps[m]);
    const int64_t phases = 1 + launch.levels[by_level.back()];
    const std::string because =
        fmt::format("{} kernels in {} {}", steps.size(), phases, phases == 1 ? "phase" : "phases");
    return share(steps, s, launch.apart_us, saved_us(launch), because, [&](const auto& members) {
      std::vector<std::vector<TensorId>> outputs;
      for (const size_t step : steps) outputs.push_back(planned(step).group.outputs);
      return join_on_cpu(members, outputs, planned(s).name, target_);
    });
  }

  bool reads(size_t step, const std::vector<size_t>& makers) {
    return std::ranges::any_of(planned(step).schedule.parameters, [&](TensorId t) {
      return std::ranges::any_of(makers, [&](size_t maker) {
        const std::vector<TensorId>& made = planned(maker).group.outputs;
        return std::ranges::find(made, t) != made.end();
      });
    });
  }

  bool may_pack(size_t step) {
    return is_free(step) && members_[step]->alone &&
           planned(step).schedule.program.body.size() == 1;
  }

  /// Small kernels that need nothing of each other, in the place of one of them behind all that
  /// they read and before all that read them.
  Status begin_pack_at(size_t s) {
    if (!may_pack(s)) return {};
    std::vector<size_t> steps{s};
    Gap gap = order_.gap(s);
    size_t place = s;
    double apart_us = planned(s).schedule.estimate.microseconds;
    for (size_t j = s + 1; j < std::min(plan_.order.size(), s + kReach); ++j) {
      if (steps.size() == kMostMembers) break;
      if (!may_pack(j) || reads(j, steps)) continue;
      const Gap both = gap & order_.gap(j);
      const size_t at = both.holds(place) ? place : j;
      if (!both.holds(at)) continue;
      steps.push_back(j);
      gap = both;
      place = at;
      apart_us += planned(j).schedule.estimate.microseconds;
    }
    if (steps.size() < 2) return {};
    const std::string because = fmt::format("{} independent kernels", steps.size());
    return share(steps, place, apart_us, {}, because, [&](const auto& members) {
      return pack_on_cpu(members, planned(s).name, target_);
    });
  }

  /// Builds the launch of the kernels at these steps, and takes it where that is worth it.
  /// `starts_us`: what their starts save, where that is all that the launch is for.
  template <typename Build>
  Status share(const std::vector<size_t>& steps, size_t place, double apart_us,
               std::optional<double> starts_us, const std::string& because, const Build& build) {
    std::vector<const ScheduledKernel*> members;
    std::vector<int32_t> numbers;
    for (const size_t step : steps) {
      members.push_back(&planned(step).schedule);
      numbers.push_back(plan_.order[step].index);
    }
    Result<ScheduledKernel> schedule = build(members);
    if (!schedule.ok()) {
      if (schedule.error().code == ErrorCode::kUnsupported) return {};
      return schedule.error();
    }
    const double saved = apart_us - schedule->estimate.microseconds;
    constexpr double kRounding = 1e-6;
    const bool certain =
        starts_us && saved >= *starts_us * (1 - kRounding) && are_unlike_others(steps);
    if (!is_worth_it(saved, apart_us, certain)) return {};
    PlannedKernel out = united(plan_.kernels, numbers);
    out.packed_because = fmt::format("{} on {} threads, saves {:.1f} us", because,
                                     std::max(target_.threads, 1), saved);
    out.schedule = std::move(*schedule);
    for (const size_t step : steps) {
      gone_[step] = step != place;
      order_.move(step, place);
    }
    launches_.emplace(place, std::move(out));
    return {};
  }

  const TensorProgram& program_;
  const Target& target_;
  const bool fewest_;
  GroupKeys& keys_;
  FusionPlan& plan_;
  StepOrder order_;
  std::vector<size_t> last_read_;               ///< by tensor: the step
  std::vector<bool> gone_;                      ///< by step: runs at its launch's place
  std::vector<std::optional<Member>> members_;  ///< by step
  std::map<size_t, PlannedKernel> launches_;    ///< by place
  std::map<Hash128, Member> known_;             ///< by key
  std::map<Hash128, int> alike_;                ///< by key: kernels that may share a launch
};

}  // namespace

Status share_cpu_launches(const TensorProgram& program, const Target& target, Joins joins,
                          GroupKeys& keys, FusionPlan& plan) {
  if (joins == Joins::kNo || target.is_gpu()) return {};
  return Sharing(program, target, joins, keys, &plan).run();
}

}  // namespace weft
