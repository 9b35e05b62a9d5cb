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

  int32_t compute_capability = 80;  ///< GPU: 10 * major + minor
  int32_t sm_count = 1;             ///< GPU: streaming multiprocessors
  int32_t clock_mhz = 1000;         ///< GPU: boost
  int32_t threads_per_sm = 2048;    ///< GPU: resident at most
  int32_t blocks_per_sm = 32;       ///< GPU: resident at most
  int32_t registers_per_sm = 65536;
  int32_t registers_per_thread = 255;
  int64_t shared_bytes_per_block = 48 << 10;  ///< GPU: with opt-in
  int64_t shared_bytes_per_sm = 48 << 10;
  /// GPU: whose calls a plan may use in place of kernels of its own (target/library_call.h).
  std::vector<std::string> libraries;
  bool grid_barriers = true;  ///< GPU: plans may let all blocks of a kernel wait for each other
  /// GPU: cycles between two warp instructions of a class on one SM.
  struct Cpi {
    std::string op_class;  ///< f32, f16, f64, int, convert, special, shared
    double cycles = 1;
  };
  std::vector<Cpi> cpi;

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
  /// GPU: matrix units with float32 accumulation, dense; 0 where the device has none for the type.
  double peak_f16_gflops = 0, peak_bf16_gflops = 0, peak_tf32_gflops = 0;
  /// Whether products of float32 may be rounded to tf32 on the way into them. Chosen by whoever
  /// compiles, no property of the device: not part of its text.
  bool reduced_float32 = false;
  double launch_us = 0.3;   ///< cost of starting a kernel inside a run
  double barrier_us = 0.5;  ///< cost of a barrier of all blocks; GPU: of one block an SM
  double drain_us = 0;      ///< GPU: of a kernel's end; 0: what a barrier takes
  /// GPU: blocks that may form a cluster; 0 where there are none.
  int32_t cluster_blocks = 0;
  double cluster_barrier_us = 0;  ///< GPU: cost of a barrier of a cluster
  /// GPU: it is the multiprocessors of one cluster of a device, all blocks of a launch form it
  /// (schedule/gpu/cluster_device.h). No property of a device: not part of its text.
  bool one_cluster = false;

  int lanes(int64_t element_bytes) const { return static_cast<int>(vector_bytes / element_bytes); }
  /// Log-linear interpolation of the curve.
  double bandwidth_gb_per_s(int64_t working_set) const;
  /// Cycles of a class of operations; 1 where the description does not say.
  double cycles_per_instruction(std::string_view op_class) const;
  bool is_gpu() const { return kind == Kind::kGpu; }
  double end_us() const { return drain_us > 0 ? drain_us : barrier_us; }
  /// What a kernel takes beside its work.
  double start_us() const { return launch_us + end_us(); }
  /// GPU: what it takes until all blocks of a launch have met, of which an SM has so many.
  double meeting_us(int64_t per_sm) const;
};

/// Blocks of one kernel that an SM holds at once, by threads, registers, shared memory and the
/// number of blocks; 0 where one alone does not fit.
int64_t resident_blocks_per_sm(const Target& target, int64_t threads, int64_t registers_per_thread,
                               int64_t shared_bytes);

/// Blocks that a device holds at once where so many form a cluster and an SM has room for
/// `resident`; not all need be whole clusters. Two are neighbours on any SMs; more lie on those of
/// one GPC, whose number need not be a multiple of theirs.
int64_t blocks_in_clusters(const Target& target, int64_t cluster, int64_t resident);

/// Registers that a thread has at most where an SM is to hold `blocks` blocks: what a compiler that
/// is told so leaves it.
int64_t registers_for_residency(const Target& target, int64_t threads, int64_t blocks);

/// Whether a CPU has an instruction that multiplies bytes and adds up four products in 32 bits.
bool multiplies_bytes(const Target& target);

/// The machine that runs this process: features, cache sizes and affinity/cgroup thread count;
/// modelled (not measured) rates, the same at every call. `threads` 0 means all that the process
/// may use. `max_vector_bytes` caps the vector width (0: the machine's): the result is a machine of
/// that width, without the features that came with wider vectors.
Target host_cpu_target(int threads = 0, int max_vector_bytes = 0);

/// The features among `features` that the CPU this process runs on lacks.
std::vector<std::string> missing_features(const std::vector<std::string>& features);

/// Cores that the process may use: its affinity, bounded by its control group's quota.
int usable_threads();

/// Names of the descriptions in targets/, which every build carries; ascending.
std::vector<std::string> known_targets();
/// One of them, or what a file whose name ends in ".target" describes. kInvalidInput lists the
/// names there are, or says what is wrong with the file.
Result<Target> find_target(std::string_view name);

/// Text of targets/NAME.target: `key value` lines, '#' comments. parse is print's inverse.
///     name epyc-9654
///     kind cpu
///     features avx2 fma
///     bandwidth 32768 552
std::string print(const Target& target);
/// kInvalidInput names the line. Keys that are missing keep their default; `name` is required.
Result<Target> parse_target(std::string_view text);

}  // namespace weft
