#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "target/cpu_features.h"
#include "target/cpu_limits.h"
#include "target/target.h"

namespace weft {
namespace {

constexpr double kUsualGhz = 3.5;

int affinity_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Rates by vector width and clock: a core copies a vector to and one from its first cache each
/// cycle, half of that in the second, a fifth in the third; memory serves a few cores.
void model_rates(Target& target, double ghz, int fma_units) {
  const double threads = target.threads;
  const double core = 2.0 * target.vector_bytes * ghz;
  target.peak_gflops = threads * ghz * fma_units * 2 * (target.vector_bytes / 4);
  const auto spread = [&](int64_t bytes, double part) {
    return static_cast<int64_t>(static_cast<double>(bytes) * part);
  };
  const double memory = std::min(20.0 * threads, 40.0 + 4.0 * threads);
  target.bandwidth = {
      {spread(target.l1_bytes, 0.75 * threads), core * threads},
      {spread(target.l2_bytes, 0.5 * threads), core * threads / 2},
  };
  const Target::BandwidthPoint shared{spread(target.l3_bytes, 0.5),
                                      std::max(core * threads / 5, memory)};
  if (shared.bytes > target.bandwidth.back().bytes) target.bandwidth.push_back(shared);
  const int64_t beyond = std::max(2 * target.l3_bytes, 4 * target.bandwidth.back().bytes);
  target.bandwidth.push_back({beyond, memory});
  target.barrier_us = target.threads == 1 ? 0.05 : 0.4 + 0.05 * threads;
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
  Target target;
  target.name = "cpu";
  target.kind = Target::Kind::kCpu;
  target.threads = threads > 0 ? threads : usable_threads();
  target.vector_bytes = identity.vector_bytes;
  target.vector_registers = identity.vector_bytes == 64 ? 32 : 16;
  target.features = std::move(identity.features);
  target.cpu = identity.cpu;
  const CacheSizes caches = read_cache_sizes();
  if (caches.l1 > 0) target.l1_bytes = caches.l1;
  if (caches.l2 > 0) target.l2_bytes = caches.l2;
  if (caches.l3 > 0) target.l3_bytes = caches.l3;
  const double ghz = read_clock_ghz();
  model_rates(target, ghz > 0.5 ? ghz : kUsualGhz, identity.fma_units);
  return target;
}

}  // namespace weft
