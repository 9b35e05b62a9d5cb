#include "target/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "target/gpu_rates.h"
#include "target/target_texts.h"

namespace weft {

double Target::bandwidth_gb_per_s(int64_t working_set) const {
  if (bandwidth.empty()) return 10;
  if (working_set <= bandwidth.front().bytes) return bandwidth.front().gb_per_s;
  for (size_t i = 1; i < bandwidth.size(); ++i) {
    const BandwidthPoint &low = bandwidth[i - 1], &high = bandwidth[i];
    if (working_set > high.bytes) continue;
    const double position =
        std::log(static_cast<double>(working_set) / static_cast<double>(low.bytes)) /
        std::log(static_cast<double>(high.bytes) / static_cast<double>(low.bytes));
    return low.gb_per_s * std::pow(high.gb_per_s / low.gb_per_s, position);
  }
  return bandwidth.back().gb_per_s;
}

double Target::meeting_us(int64_t per_sm) const {
  if (one_cluster) return cluster_barrier_us;
  return barrier_us * (1 + kBlockMeets * static_cast<double>(per_sm - 1));
}

double Target::cycles_per_instruction(std::string_view op_class) const {
  for (const Cpi& c : cpi) {
    if (c.op_class == op_class) return c.cycles;
  }
  return 1;
}

namespace {

/// Registers are handed out by warp, so many at a time.
constexpr int64_t kWarpRegisters = 256;

}  // namespace

int64_t resident_blocks_per_sm(const Target& target, int64_t threads, int64_t registers_per_thread,
                               int64_t shared_bytes) {
  // Shared memory has 1 KB of the system's a block from compute capability 8.0 on.
  const int64_t warps = (threads + 31) / 32;
  const int64_t warp_registers =
      (std::max<int64_t>(registers_per_thread, 1) * 32 + kWarpRegisters - 1) / kWarpRegisters *
      kWarpRegisters;
  const int64_t reserved = target.compute_capability >= 80 ? 1024 : 0;
  if (threads < 1 || shared_bytes > target.shared_bytes_per_block) return 0;
  int64_t blocks = std::min<int64_t>(target.blocks_per_sm, target.threads_per_sm / (warps * 32));
  blocks = std::min(blocks, target.registers_per_sm / warp_registers / warps);
  if (shared_bytes + reserved > 0) {
    blocks = std::min(blocks, target.shared_bytes_per_sm / (shared_bytes + reserved));
  }
  return blocks;
}

int64_t blocks_in_clusters(const Target& target, int64_t cluster, int64_t resident) {
  // H100: 120 of 132 SMs take clusters of 8 ("Better grid size for H100 GPU with SXM5", CUTLASS
  // issue 1921: cuBLAS launches as many).
  constexpr int64_t kClusteredOf16 = 15;
  const int64_t blocks = target.sm_count * resident;
  return cluster > 2 ? blocks * kClusteredOf16 / 16 : blocks;
}

int64_t registers_for_residency(const Target& target, int64_t threads, int64_t blocks) {
  const int64_t warps = std::max<int64_t>((threads + 31) / 32 * blocks, 1);
  const int64_t of_a_warp = target.registers_per_sm / warps / kWarpRegisters * kWarpRegisters;
  return std::min<int64_t>(target.registers_per_thread, of_a_warp / 32);
}

bool multiplies_bytes(const Target& target) {
  return std::ranges::any_of(target.features, [](const std::string& feature) {
    return feature == "avx512vnni" || feature == "avxvnni";
  });
}

std::vector<std::string> known_targets() {
  std::vector<std::string> names;
  for (const TargetText& t : target_texts()) names.emplace_back(t.name);
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

constexpr std::string_view kTargetFile = ".target";

Result<Target> read_target(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto count = static_cast<size_t>(std::max<std::streamsize>(0, file.gcount()));
  if (!file.eof() || count > kMostBytes) {
    return invalid_input("cannot read the target description '" + path + "'");
  }
  Result<Target> target = parse_target(text.substr(0, count));
  if (target.ok()) return target;
  return invalid_input("'" + path + "': " + target.error().message);
}

}  // namespace

Result<Target> find_target(std::string_view name) {
  for (const TargetText& t : target_texts()) {
    if (t.name == name) return parse_target(t.text);
  }
  if (name.ends_with(kTargetFile)) return read_target(std::string(name));
  return invalid_input(
      fmt::format("unknown target '{}'; known: cpu, interp, simt, {}, or a file NAME{} as weft "
                  "calibrate writes",
                  name, fmt::join(known_targets(), ", "), kTargetFile));
}

}  // namespace weft
