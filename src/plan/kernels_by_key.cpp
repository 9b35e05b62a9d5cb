#include "plan/kernels_by_key.h"

#include <algorithm>
#include <span>

#include "schedule/schedule_key.h"
#include "support/for_each_in_parallel.h"

namespace weft {

namespace {

/// Of work on so many kernels. Few are done sooner than threads are started.
int threads_for(size_t kernels) {
  constexpr size_t kFewKernels = 8;
  return kernels < kFewKernels ? 1 : usable_threads();
}

void copy_traffic(const Estimate& from, Estimate* to) {
  to->bytes_read = from.bytes_read;
  to->bytes_written = from.bytes_written;
  to->bytes_requested = from.bytes_requested;
}

/// The chain that took least, or the blocks of stages that did, where the one at hand was measured,
/// too, and it is another; null.
const MeasuredComposition* quicker_than(const Composition& present,
                                        std::span<const MeasuredComposition> measured) {
  using Kind = Composition::Kind;
  const auto at = std::ranges::find(measured, present, &MeasuredComposition::composition);
  const bool in_blocks = present.kind == Kind::kChain || present.kind == Kind::kBlock;
  if (!in_blocks || at == measured.end()) return nullptr;
  const MeasuredComposition* quickest = &*at;
  for (const MeasuredComposition& m : measured) {
    if (m.composition.kind == present.kind && m.microseconds < quickest->microseconds)
      quickest = &m;
  }
  return is_clearly_quicker(quickest->microseconds, at->microseconds) ? quickest : nullptr;
}

/// As it was composed, or as a chain or blocks of the group that were measured to be quicker.
Result<ScheduledKernel> build_composed(const TensorProgram& program, const Group& group,
                                       const Composition& composition, const Target& target,
                                       const std::string& name,
                                       std::span<const MeasuredComposition> measured) {
  if (const MeasuredComposition* quicker = quicker_than(composition, measured)) {
    auto kernel = build_composition(program, group, quicker->composition, target, name);
    if (kernel.ok()) {
      kernel->measured = name_of_row(*quicker);
      return kernel;
    }
  }
  return build_composition(program, group, composition, target, name);
}

/// The kernel that is predicted to take least, or blocks of the group that were measured to be
/// quicker.
Result<ScheduledKernel> build_best(const TensorProgram& program, const Group& group,
                                   const Target& target, const std::string& name,
                                   std::span<const MeasuredComposition> measured) {
  auto best = schedule_group(program, group, target, name, measured);
  if (!best.ok() || quicker_than(best->composition, measured) == nullptr) return best;
  return build_composed(program, group, best->composition, target, name, measured);
}

}  // namespace

Status KernelsByKey::schedule(const TensorProgram& program, KnownGroups& groups,
                              const std::map<size_t, Composition>& composed, FusionPlan& plan) {
  const size_t count = plan.kernels.size();
  std::vector<GroupKey> key_of;
  std::vector<std::pair<size_t, Known*>> unknown;  // a kernel of each
  std::vector<Known*> known_of;                    // null of what is composed
  for (const PlannedKernel& kernel : plan.kernels) {
    key_of.push_back(groups.keys().of(kernel.group));
    if (composed.count(key_of.size() - 1) != 0) {
      known_of.push_back(nullptr);
      continue;
    }
    const auto [at, is_new] = known_.try_emplace(key_of.back().hash);
    known_of.push_back(&at->second);
    if (is_new) unknown.emplace_back(key_of.size() - 1, &at->second);
  }
  for_each_in_parallel(unknown.size(), threads_for(unknown.size()), [&](size_t i) {
    throw_if_cancelled(groups.cancel());
    const auto& [k, known] = unknown[i];
    auto kernel = schedule_key(key_of[k], program, plan.kernels[k].group, target_, &groups.leaves(),
                               measured_of(key_of[k]));
    if (kernel.ok()) known->kernel = std::move(*kernel);
  });
  std::vector<const Composition*> blocks(count, nullptr);  // of what is no leaf
  for (size_t k = 0; k < count; ++k) {
    if (known_of[k] != nullptr && !known_of[k]->kernel)
      blocks[k] = groups.known_block(plan.kernels[k].group);
  }
  std::vector<std::optional<Error>> errors(count);
  for_each_in_parallel(count, threads_for(count), [&](size_t k) {
    throw_if_cancelled(groups.cancel());
    PlannedKernel& kernel = plan.kernels[k];
    if (known_of[k] != nullptr && known_of[k]->kernel) {
      if (auto named = kernel_of_key(*known_of[k]->kernel, key_of[k], program, kernel.name)) {
        kernel.schedule = std::move(*named);
        return;
      }
    }
    const auto given = composed.find(k);
    const Composition* as = given == composed.end() ? blocks[k] : &given->second;
    auto schedule = as == nullptr ? build_best(program, kernel.group, target_, kernel.name,
                                               measured_of(key_of[k]))
                                  : build_composed(program, kernel.group, *as, target_, kernel.name,
                                                   measured_of(key_of[k]));
    if (schedule.ok()) {
      kernel.schedule = std::move(*schedule);
    } else {
      errors[k] = schedule.take_error();
    }
  });
  for (std::optional<Error>& error : errors) {
    if (error) return std::move(*error);
  }
  return {};
}

void KernelsByKey::estimate(GroupKeys& keys, FusionPlan& plan) {
  std::vector<ScheduledKernel*> unknown;
  std::vector<std::pair<Known*, ScheduledKernel*>> known;
  std::vector<Known*> first;  // by `unknown`; null of what shares a launch
  for (PlannedKernel& kernel : plan.kernels) {
    // A chain's group may be composed otherwise, too.
    const bool is_chain = kernel.schedule.composition.kind == Composition::Kind::kChain;
    Known* of_key = kernel.members.empty() && !is_chain
                        ? &known_.try_emplace(keys.of(kernel.group).hash).first->second
                        : nullptr;
    if (of_key == nullptr || !of_key->traffic) {
      unknown.push_back(&kernel.schedule);
      first.push_back(of_key);
      if (of_key != nullptr) of_key->traffic.emplace();
    } else {
      known.emplace_back(of_key, &kernel.schedule);
    }
  }
  for_each_in_parallel(unknown.size(), threads_for(unknown.size()), [&](size_t i) {
    estimate_traffic(*unknown[i]);
    if (first[i] == nullptr) return;
    first[i]->traffic = unknown[i]->estimate;
    first[i]->parameter_reads = unknown[i]->parameter_reads;
  });
  for (const auto& [of_key, kernel] : known) {
    copy_traffic(*of_key->traffic, &kernel->estimate);
    kernel->parameter_reads = of_key->parameter_reads;
  }
}

}  // namespace weft
