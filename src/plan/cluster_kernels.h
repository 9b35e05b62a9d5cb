#pragma once

#include <map>
#include <optional>
#include <string>

#include "group/group_key.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace weft {

/// Leaves for a launch on the blocks of one cluster, by the keys of their groups: what is equal, as
/// the layers of a model are, is chosen once.
class ClusterKernels {
 public:
  /// `device`: the cluster (schedule/gpu/cluster_device.h).
  explicit ClusterKernels(Target device);

  const Target& device() const { return device_; }
  /// The leaf that is predicted to take least there; nothing where no template holds the group.
  /// `keys` are of `program`.
  std::optional<ScheduledKernel> find(const TensorProgram& program, GroupKeys& keys,
                                      const Group& group, const std::string& name);

 private:
  const Target device_, leaves_;  ///< the latter for kernels none of whose blocks wait
  std::map<Hash128, std::optional<ScheduledKernel>> known_;  ///< none: an error
};

}  // namespace weft
