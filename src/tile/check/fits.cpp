#include <algorithm>

#include "fmt/format.h"
#include "support/rounding.h"
#include "tile/check/fits.h"

#include "tile/places.h"
#include "tile/scope_analysis.h"

namespace weft {
namespace {

/// The part of the second-level cache that scratch may fill: streams pass through the rest.
constexpr int64_t kScratchShare = 2;

/// Registers of a GPU's thread that hold addresses and counters, beside the program's values.
constexpr int64_t kAddressRegisters = 16;
/// The same beside warp groups, whose instructions take descriptors and cannot be parted: a bound
/// below its sums and 26 more is no code at all.
constexpr int64_t kGroupRegisters = 56;

/// Of one place in which warps leave their parts of a reduction: each leaves what its lanes hold.
int64_t exchanged_bytes(const TileProgram& program, const TileStatement& statement,
                        const Place& place) {
  int64_t results = 1, lanes = 1;
  bool spans_warps = false;
  for (const Place::Axis& axis : place.axes) {
    const auto& reduce_axes = statement.reduce_axes;
    const bool reduced = std::ranges::find(reduce_axes, axis.var) != reduce_axes.end();
    for (const Place::Digit& d : axis.digits) {
      if (reduced) {
        spans_warps |= d.level == PlaceLevel::kWarp;
      } else if (d.level == PlaceLevel::kLane) {
        lanes = 32;
      } else if (d.level != PlaceLevel::kWarp) {
        results *= d.extent;
      }
    }
  }
  return spans_warps ? results * lanes * program.warps * byte_size(statement.value->type) : 0;
}

/// A core's sums fit its registers by the choice of tiles. What is made of them element by element
/// may pass through the stack once: a tile, and one that is made of it.
constexpr int64_t kRegisterTiles = 2;

Decision fits_cpu(const ScopeAnalysis& scopes, const Target& target) {
  const int64_t registers = kRegisterTiles * target.vector_registers;
  if (scopes.registers > registers) {
    return Decision::forbid(fmt::format("{} vector registers alive at once, {} has {} of them",
                                        scopes.registers, target.name, target.vector_registers));
  }
  const int64_t memory = target.l2_bytes / kScratchShare;
  if (scopes.block_bytes > memory) {
    return Decision::forbid(
        fmt::format("{} B of scratch, {} has {} for it", scopes.block_bytes, target.name, memory));
  }
  return Decision::allow(
      fmt::format("{} registers, {} B of scratch", scopes.registers, scopes.block_bytes));
}

Decision fits_gpu(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target) {
  if (scopes.cluster_blocks > std::max(target.cluster_blocks, 1)) {
    return Decision::forbid(fmt::format(
        "clusters of {} blocks, {} has {}", scopes.cluster_blocks, target.name,
        target.cluster_blocks > 0 ? fmt::format("up to {}", target.cluster_blocks) : "none"));
  }
  const Residency block = residency(program, scopes, target);
  if (block.registers > target.registers_per_thread) {
    return Decision::forbid(fmt::format("{} registers of a thread, {} has {}", block.registers,
                                        target.name, target.registers_per_thread));
  }
  if (block.shared_bytes > target.shared_bytes_per_block) {
    return Decision::forbid(fmt::format("{} B of shared memory, {} has {} for a block",
                                        block.shared_bytes, target.name,
                                        target.shared_bytes_per_block));
  }
  const int64_t wanted = std::max<int64_t>(program.per_sm, 1);
  if (block.blocks_per_sm < wanted) {
    return Decision::forbid(fmt::format("an SM of {} holds {} such blocks, {} have to be on it",
                                        target.name, block.blocks_per_sm, wanted));
  }
  return Decision::allow(
      fmt::format("{} registers of a thread, {} B of shared memory, {} blocks on an SM",
                  block.registers, block.shared_bytes, block.blocks_per_sm));
}

}  // namespace

Residency residency(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target) {
  Residency out;
  out.threads = program.warps * 32;
  out.registers =
      scopes.registers + (multiplies_by_groups(program) ? kGroupRegisters : kAddressRegisters);
  int64_t exchanged = 0;
  size_t number = 0;
  for_each_statement(program.body, [&](const TileStatement& statement) {
    const Place& place = scopes.statement_places[number++];
    exchanged = std::max(exchanged, exchanged_bytes(program, statement, place));
  });
  // Reductions take two such places in turns.
  out.shared_bytes = scopes.block_bytes + 2 * exchanged;
  out.blocks_per_sm = resident_blocks_per_sm(target, out.threads, out.registers, out.shared_bytes);
  return out;
}

int64_t bounded_blocks_per_sm(const TileProgram& program, const ScopeAnalysis& scopes,
                              const Target& target) {
  constexpr int64_t kThreads = 1024;
  if (program.per_sm > 0) return program.per_sm;
  const Residency block = residency(program, scopes, target);
  int64_t blocks = std::min(block.blocks_per_sm, kThreads / block.threads);
  if (program.blocks.is_const())
    blocks = std::min(blocks, ceil_div(program.blocks.constant(), target.sm_count));
  return std::max<int64_t>(blocks, 1);
}

bool is_bounded(const TileProgram& program, bool is_compute) {
  return !is_compute || multiplies_by_groups(program);
}

Decision fits(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target) {
  if (program.cpu == target.is_gpu()) {
    return Decision::forbid(fmt::format("{} is a program for a {}, {} is a {}", program.name,
                                        program.cpu ? "CPU" : "GPU", target.name,
                                        target.is_gpu() ? "GPU" : "CPU"));
  }
  return program.cpu ? fits_cpu(scopes, target) : fits_gpu(program, scopes, target);
}

}  // namespace weft
