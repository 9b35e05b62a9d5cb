#include "plan/kernels_by_key.h"

#include <set>

#include "schedule/schedule_key.h"
#include "support/for_each_in_parallel.h"

namespace weft {

namespace {

/// Of work on so many kernels. Few are done sooner than threads are started.
int threads_for(size_t kernels) {
  constexpr size_t kFewKernels = 8;
  return kernels < kFewKernels ? 1 : usable_threads();
}

/// What was predicted of the tile program: on GPUs its bytes alone.
void copy_built(const Estimate& from, const Target& target, Estimate* to) {
  to->bytes_read = from.bytes_read;
  to->bytes_written = from.bytes_written;
  to->bytes_requested = from.bytes_requested;
  if (!target.is_gpu()) to->microseconds = from.microseconds;
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
    const auto& [k, known] = unknown[i];
    auto kernel =
        schedule_key(key_of[k], program, plan.kernels[k].group, target_, &groups.leaves());
    if (kernel.ok()) known->kernel = std::move(*kernel);
  });
  std::vector<char> is_named(count);
  for_each_in_parallel(count, threads_for(count), [&](size_t k) {
    if (known_of[k] == nullptr || !known_of[k]->kernel) return;
    auto named = kernel_of_key(*known_of[k]->kernel, key_of[k], program, plan.kernels[k].name);
    is_named[k] = named.has_value();
    if (named) plan.kernels[k].schedule = std::move(*named);
  });
  // What is to be built for itself: the first of each key chooses, then the others are built as it.
  std::vector<size_t> first, others;
  std::set<const Known*> seen;
  for (size_t k = 0; k < count; ++k) {
    if (is_named[k]) continue;
    const Known* known = known_of[k];
    const bool is_first = known != nullptr && !known->composition && seen.insert(known).second;
    (is_first ? first : others).push_back(k);
  }
  const auto composition_of = [&](size_t k) -> const Composition* {
    if (known_of[k] == nullptr) return &composed.at(k);
    return known_of[k]->composition ? &*known_of[k]->composition : nullptr;
  };
  for (const std::vector<size_t>& some : {first, others}) {
    std::vector<std::optional<Error>> errors(some.size());
    for_each_in_parallel(some.size(), threads_for(some.size()), [&](size_t i) {
      PlannedKernel& kernel = plan.kernels[some[i]];
      const Composition* how = composition_of(some[i]);
      auto schedule = how != nullptr
                          ? build_composition(program, kernel.group, *how, target_, kernel.name)
                          : schedule_group(program, kernel.group, target_, kernel.name);
      if (schedule.ok()) {
        kernel.schedule = std::move(*schedule);
      } else {
        errors[i] = schedule.take_error();
      }
    });
    for (std::optional<Error>& error : errors) {
      if (error) return std::move(*error);
    }
    for (const size_t k : some) {
      if (known_of[k] != nullptr) known_of[k]->composition = plan.kernels[k].schedule.composition;
    }
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
    if (of_key == nullptr || !of_key->built) {
      unknown.push_back(&kernel.schedule);
      first.push_back(of_key);
      if (of_key != nullptr) of_key->built.emplace();
    } else {
      known.emplace_back(of_key, &kernel.schedule);
    }
  }
  for_each_in_parallel(unknown.size(), threads_for(unknown.size()), [&](size_t i) {
    estimate_built(*unknown[i], target_);
    if (first[i] != nullptr) first[i]->built = unknown[i]->estimate;
  });
  for (const auto& [of_key, kernel] : known) copy_built(*of_key->built, target_, &kernel->estimate);
}

}  // namespace weft
