#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "target/cpu_features.h"
#include "target/cpu_limits.h"
#include "target/model_cpu.h"
#include "target/target.h"

namespace weft {
namespace {

int affinity_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

int usable_threads() {
  std::ifstream file("/proc/self/cgroup");
  std::stringstream membership;
  membership << file.rdbuf();
  const int quota = cgroup_quota("", membership.str());
  const int cores = affinity_count();
  return quota == 0 ? cores : std::min(cores, quota);
}

std::vector<std::string> missing_features(const std::vector<std::string>& features) {
  const std::vector<std::string> present = identify_cpu().features;
  std::vector<std::string> missing;
  for (const std::string& f : features) {
    if (!std::binary_search(present.begin(), present.end(), f)) missing.push_back(f);
  }
  return missing;
}

Target host_cpu_target(int threads, int max_vector_bytes) {
  CpuIdentity identity = identify_cpu();
  if (max_vector_bytes > 0) identity = capped_to(std::move(identity), max_vector_bytes);
  return model_cpu(identity, read_cache_sizes(), read_clock_ghz(),
                   threads > 0 ? threads : usable_threads());
}

}  // namespace weft
