#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace weft {

/// A device as data. Every planner and cost function takes one; nothing asks the machine behind its
/// back.
struct Target {
  enum class Kind : uint8_t { kCpu, kGpu };
  std::string name;
  Kind kind = Kind::kCpu;

  int32_t threads = 1;                ///< CPU: workers of a run
  int32_t vector_bytes = 32;          ///< CPU: 16, 32 or 64
  int32_t vector_registers = 16;      ///< CPU: 16 or 32
  std::vector<std::string> features;  ///< CPU: LLVM feature names, sorted ("avx512f", "fma", …)
  std::string cpu;  ///< CPU: LLVM's name for scheduling models ("generic" if unknown)

  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes = 32 << 20;

  /// Copy bandwidth (read + write) of all threads by working-set size, ascending.
  struct BandwidthPoint {
    int64_t bytes;
    double gb_per_s;
  };
  std::vector<BandwidthPoint> bandwidth;
  double peak_gflops = 50;  ///< float32 FMA, all threads
  double launch_us = 0.3;   ///< cost of starting a kernel inside a run
  double barrier_us = 0.5;  ///< cost of a barrier of all blocks

  int lanes(int64_t element_bytes) const { return static_cast<int>(vector_bytes / element_bytes); }
  /// Log-linear interpolation of the curve.
  double bandwidth_gb_per_s(int64_t working_set) const;
};

/// The machine that runs this process: features, cache sizes and affinity/cgroup thread count;
/// modelled (not measured) rates, the same at every call. `threads` 0 means all that the process
/// may use. `max_vector_bytes` caps the vector width (0: the machine's): the result is a machine of
/// that width, without the features that came with wider vectors.
Target host_cpu_target(int threads = 0, int max_vector_bytes = 0);

/// The features among `features` that the CPU this process runs on lacks.
std::vector<std::string> missing_features(const std::vector<std::string>& features);

/// Cores that the process may use: its affinity, bounded by its control group's quota.
int usable_threads();

/// Text of targets/NAME.target: `key value` lines, '#' comments. parse is print's inverse.
///     name epyc-9654
///     kind cpu
///     features avx2 fma
///     bandwidth 32768 552
std::string print(const Target& target);
/// kInvalidInput names the line. Keys that are missing keep their default; `name` is required.
Result<Target> parse_target(std::string_view text);

}  // namespace weft
