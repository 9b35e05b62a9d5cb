#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// Bytes of the data caches that one core sees; 0 where the system does not say.
struct CacheSizes {
  int64_t l1 = 0, l2 = 0, l3 = 0;
};
CacheSizes read_cache_sizes();

/// Highest clock in GHz by the system's description, 0 where it has none. Never the clock of the
/// moment: a target must not change between two calls.
double read_clock_ghz();

/// Cores' worth of time that the control groups under `root` (the system's "/") grant the process
/// whose memberships are listed in `membership` (the text of /proc/self/cgroup); 0 for no limit.
///     0::/user.slice   with cpu.max "200000 100000" there or above it  ->  2
int cgroup_quota(const std::string& root, const std::string& membership);

}  // namespace weft
