#include "target/model_cpu.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kUsualGhz = 3.5;

/// A core's part of the last cache at most: of a socket's cache, of which a virtual machine with a
/// few of its cores is told, others' cores have theirs.
constexpr int64_t kLastCacheOfACore = 32 << 20;

/// Bytes that a core reads and writes a cycle.
struct CopyRates {
  double first, second, third;
};

/// A core copies a vector to and one from its first cache each cycle. Intel's second cache and the
/// mesh to its third one as measured on a server with AVX-512 (2 MB a core; 2025).
CopyRates copy_rates(const CpuIdentity& identity) {
  const double first = 2.0 * identity.vector_bytes;
  CopyRates out{.first = first, .second = first / 2, .third = first / 5};
  if (identity.vendor == "GenuineIntel") {
    out.second = std::min(out.second, 28.0);
    out.third = std::min(out.third, 8.0);
  }
  return out;
}

/// The curve falls to the second cache's rate as soon as the first ones do not hold what is copied;
/// memory serves a few cores.
std::vector<Target::BandwidthPoint> bandwidths(const Target& target, const CopyRates& rates,
                                               double ghz) {
  const double threads = target.threads;
  const auto spread = [](int64_t bytes, double part) {
    return static_cast<int64_t>(static_cast<double>(bytes) * part);
  };
  const double second = rates.second * ghz * threads;
  const double memory = std::min(20.0 * threads, 40.0 + 4.0 * threads);
  std::vector<Target::BandwidthPoint> out;
  const auto add = [&](int64_t bytes, double gb_per_s) {
    if (out.empty() || bytes > out.back().bytes) out.push_back({bytes, gb_per_s});
  };
  add(spread(target.l1_bytes, 0.75 * threads), rates.first * ghz * threads);
  add(spread(target.l1_bytes, 3 * threads), second);
  add(spread(target.l2_bytes, 0.5 * threads), second);
  add(spread(target.l3_bytes, 0.5), std::max(rates.third * ghz * threads, memory));
  add(std::max(2 * target.l3_bytes, 4 * out.back().bytes), memory);
  return out;
}

}  // namespace

Target model_cpu(const CpuIdentity& identity, const CacheSizes& caches, double ghz, int threads) {
  if (ghz < 0.5) ghz = kUsualGhz;
  Target target;
  target.name = "cpu";
  target.kind = Target::Kind::kCpu;
  target.threads = threads;
  target.vector_bytes = identity.vector_bytes;
  target.vector_registers = identity.vector_bytes == 64 ? 32 : 16;
  target.features = identity.features;
  target.cpu = identity.cpu;
  if (caches.l1 > 0) target.l1_bytes = caches.l1;
  if (caches.l2 > 0) target.l2_bytes = caches.l2;
  if (caches.l3 > 0) target.l3_bytes = std::min(caches.l3, threads * kLastCacheOfACore);
  target.clock_mhz = static_cast<int32_t>(ghz * 1e3);
  target.peak_gflops = threads * ghz * identity.fma_units * 2 * (target.vector_bytes / 4);
  target.bandwidth = bandwidths(target, copy_rates(identity), ghz);
  target.barrier_us = threads == 1 ? 0.05 : 0.4 + 0.05 * threads;
  return target;
}

}  // namespace weft
