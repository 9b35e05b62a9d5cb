#include "runtime/run_seed.h"

#include <atomic>
#include <random>

namespace weft {
namespace {

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): neighbouring values of
/// set_run_seed() begin sequences far from each other.
uint64_t scattered(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

std::atomic<uint64_t>& sequence() {
  static std::atomic<uint64_t> next{[] {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32) | device();
  }()};
  return next;
}

}  // namespace

uint64_t next_run_seed() { return sequence().fetch_add(1, std::memory_order_relaxed); }

void set_run_seed(uint64_t seed) { sequence().store(scattered(seed), std::memory_order_relaxed); }

}  // namespace weft
