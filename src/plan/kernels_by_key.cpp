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

Status KernelsByKey::schedule(const TensorProgram& program, KnownGroups& groups, FusionPlan& plan) {
  const size_t count = plan.kernels.size();
  std::vector<GroupKey> key_of;
  std::vector<std::pair<size_t, Known*>> unknown;  // a kernel of each
  std::vector<Known*> known_of;
  for (const PlannedKernel& kernel : plan.kernels) {
    key_of.push_back(groups.keys().of(kernel.group));
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
    const auto& made = known_of[k]->kernel;
    auto named =
        made ? kernel_of_key(*made, key_of[k], program, plan.kernels[k].name) : std::nullopt;
    is_named[k] = named.has_value();
    if (named) plan.kernels[k].schedule = std::move(*named);
  });
  // What is to be built for itself: the first of each key chooses, then the others are built as it.
  std::vector<size_t> first, others;
  std::set<const Known*> seen;
  for (size_t k = 0; k < count; ++k) {
    if (is_named[k]) continue;
    (known_of[k]->composition || !seen.insert(known_of[k]).second ? others : first).push_back(k);
  }
  for (const std::vector<size_t>& some : {first, others}) {
    std::vector<std::optional<Error>> errors(some.size());
    for_each_in_parallel(some.size(), threads_for(some.size()), [&](size_t i) {
      PlannedKernel& kernel = plan.kernels[some[i]];
      const std::optional<Composition>& how = known_of[some[i]]->composition;
      auto schedule = how ? build_composition(program, kernel.group, *how, target_, kernel.name)
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
    for (const size_t k : some) known_of[k]->composition = plan.kernels[k].schedule.composition;
  }
  return {};
}

void KernelsByKey::estimate(GroupKeys& keys, FusionPlan& plan) {
  std::vector<ScheduledKernel*> unknown;
  std::vector<std::pair<Known*, ScheduledKernel*>> known;
  std::vector<Known*> first;  // by `unknown`; null of what shares a launch
  for (PlannedKernel& kernel : plan.kernels) {
    Known* of_key = kernel.members.empty()
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
