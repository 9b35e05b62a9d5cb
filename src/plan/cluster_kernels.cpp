#include "plan/cluster_kernels.h"

#include <utility>

#include "plan/schedule_members.h"
#include "schedule/schedule_key.h"

namespace weft {

ClusterKernels::ClusterKernels(Target device)
    : device_(std::move(device)), leaves_(without_waiting(device_)) {}

std::optional<ScheduledKernel> ClusterKernels::find(const TensorProgram& program, GroupKeys& keys,
                                                    const Group& group, const std::string& name) {
  const GroupKey key = keys.of(group);
  const auto [at, is_new] = known_.try_emplace(key.hash);
  if (is_new) {
    auto kernel = schedule_key(key, program, group, leaves_);
    if (kernel.ok()) at->second = std::move(*kernel);
  }
  if (!at->second) return std::nullopt;
  if (auto named = kernel_of_key(*at->second, key, program, name)) return named;
  auto own = schedule_leaf(program, group, leaves_, name);
  return own.ok() ? std::optional(std::move(*own)) : std::nullopt;
}

}  // namespace weft
