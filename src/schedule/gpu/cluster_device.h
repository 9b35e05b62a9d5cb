#pragma once

#include <optional>

#include "target/target.h"

namespace weft {

/// The multiprocessors of one cluster of a device, as a device of their own: a block on each, all
/// of which form the cluster, with their share of what the device computes. A multiprocessor asks
/// caches and memory for what it asks for at most while all others do, too; what lies behind it is
/// the whole device's. Kernels that are chosen for it are cut for so few multiprocessors. Nothing
/// where the device has no clusters, or not as many multiprocessors.
std::optional<Target> cluster_device(const Target& target);

}  // namespace weft
