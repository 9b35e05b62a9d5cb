#include "schedule/cpu/register_tiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "cost/port_cycles.h"
#include "support/rounding.h"

namespace weft {

bool Multiplier::fits(int64_t rows, int64_t vectors) const {
  constexpr int64_t kOfRow = 3;  // beside the sums and the panel's vectors
  if (apart) return 2 * rows * vectors + vectors + kOfRow <= registers;
  const int64_t sums = rows * vectors * products;
  // Several rows take a panel's vectors from registers, each with an element of its own; those of
  // several panels are loaded further ahead, and the elements of all rows wait for the next one.
  int64_t held = rows > 1 ? vectors * products + 1 : 0;
  if (of_pairs) held += 2;
  if (products > 1) held = std::max(held + 2, rows > 1 ? rows + vectors : 0);
  // Operands of two steps are in flight beside them.
  return sums <= registers * 3 / 4 && sums + held <= registers;
}

namespace {

/// What fills the slots of a processor's FMAs, each of a vector.
struct FmaSlots {
  double broadcast = 0.5;  ///< of an element, in slots; a vector's load takes one
  double chains = 8;       ///< independent sums from which on the latency of an FMA does not show
  /// Bytes a slot of a panel that the first cache does not hold, and of one that the second does
  /// not.
  double of_second = 0, of_third = 0;
  /// Part of a tile's time that a row operand outside of the second cache costs.
  double far_row = 0.45;
};

/// As measured with vectors of 64 bytes (Zen 4, and a Xeon, whose second cache reads 45 bytes a
/// cycle where it copies 28) and of 32 (Zen 3: two FMAs a cycle, of a latency of four, beside two
/// loads of either kind, of which tall tiles reach less, and 24 bytes of the second cache).
FmaSlots fma_slots(const Target& target) {
  constexpr double kReadsOfCopies = 1.6;
  const double slots_per_ns = target.peak_gflops / (2.0 * target.lanes(4));
  const auto copied = [&](int64_t bytes) {
    return target.bandwidth_gb_per_s(bytes) / slots_per_ns;
  };
  const double third = copied(target.l3_bytes / 2);
  const int64_t in_second = target.l2_bytes / 2 * std::max(target.threads, 1);
  if (target.vector_bytes >= 64)
    return {.of_second = kReadsOfCopies * copied(in_second), .of_third = third};
  return {.broadcast = 1.25, .of_second = 12, .of_third = third, .far_row = 0.12};
}

/// Slots in which so many bytes of a panel arrive at each step, of a panel of `bytes` in all that
/// every tile of rows reads anew.
double arrival(const FmaSlots& slots, int64_t step, int64_t bytes, const Target& target) {
  constexpr double kUsed = 0.8;
  if (bytes <= target.l1_bytes / 2) return 0;
  const bool second = static_cast<double>(bytes) <= kUsed * static_cast<double>(target.l2_bytes);
  return static_cast<double>(step) /
         (second ? slots.of_second : std::min(slots.of_second, slots.of_third));
}

}  // namespace

std::vector<RegisterTile> rank_register_tiles(const TiledResult& result, int64_t lanes,
                                              int64_t max_vectors, const RowOperand& operand,
                                              const Multiplier& multiplier, const Target& target) {
  constexpr int64_t kSetStride = 4096;  // bytes after which first-level cache sets repeat
  const int64_t ways = std::max<int64_t>(8, target.l1_bytes / kSetStride);
  const FmaSlots slots = fma_slots(target);
  // Twice as many instructions, of which a Zen 4 reaches nine tenths; what surrounds a tile's sums
  // is shared by fewer of them.
  constexpr double kOfHalves = 1.2;
  const bool halves = core_of(target).begins_halves && 2 * lanes == target.lanes(4);
  const double slot = halves ? 0.5 : 1;  // of a vector of so many lanes
  std::vector<RegisterTile> tiles;
  const int64_t column_vectors = ceil_div(result.columns, lanes);
  int64_t distinct_sets = kSetStride;
  if (operand.row_stride > 0) distinct_sets = kSetStride / std::gcd(kSetStride, operand.row_stride);
  const double row_weight = operand.per_vector                        ? 0
                            : operand.row_bytes > target.l2_bytes / 2 ? slots.far_row
                                                                      : 0.12;
  const int64_t products = multiplier.products;
  const int64_t most = multiplier.apart || products > 1 || halves ? 2 * kMostVectors : kMostVectors;
  for (int64_t v = 1; v <= std::min(most / products, max_vectors); ++v) {
    for (int64_t r = 1; r <= 14; ++r) {
      if (!multiplier.fits(r, v) || r > result.rows || v > column_vectors) continue;
      const auto tile = [&](int64_t tr, int64_t tv) {
        const double fma = slot * static_cast<double>(tr * tv * products);
        if (operand.costly) return fma;
        const double elements = slots.broadcast * static_cast<double>(tr);
        const double loads =
            (operand.per_vector ? fma : elements) + slot * static_cast<double>(tv * products);
        const int64_t step = tv * products * lanes * int64_t{sizeof(float)};
        const bool again = operand.panels_again || tr < result.rows;
        return std::max({fma, loads, slot * slots.chains,
                         again ? arrival(slots, step, operand.depth * step, target) : 0});
      };
      const int64_t full_r = result.rows / r, rest_r = result.open_rows ? 0 : result.rows % r;
      // A last panel is computed whole.
      double panels = result.open_columns
                          ? static_cast<double>(result.columns) / static_cast<double>(lanes * v)
                          : static_cast<double>(ceil_div(column_vectors, v));
      if (multiplier.apart) {  // few rows leave threads nothing else to divide
        const auto threads = static_cast<double>(target.threads);
        panels = std::ceil(panels / threads) * threads;
      }
      double cost = static_cast<double>(full_r) * panels * tile(r, v);
      if (result.open_rows)
        cost *= static_cast<double>(result.rows) / static_cast<double>(full_r * r);
      if (rest_r != 0) cost += panels * tile(rest_r, v);
      const double rows_of_tile =
          result.open_rows
              ? static_cast<double>(r)
              : static_cast<double>(result.rows) / static_cast<double>(ceil_div(result.rows, r));
      if (!operand.costly)
        cost *= 1.0 + row_weight / (slot * static_cast<double>(v * products)) + 0.45 / rows_of_tile;
      if (halves) cost *= kOfHalves;
      if (ceil_div(r, distinct_sets) > ways - 2) cost *= 1.5;
      tiles.push_back({r, v, lanes, cost});
    }
  }
  std::ranges::sort(tiles, {}, [&](const RegisterTile& t) {
    return std::tuple(t.cost, operand.costly ? -t.vectors : t.vectors, t.rows);
  });
  if (tiles.empty()) tiles.push_back({.lanes = lanes});
  return tiles;
}

}  // namespace weft
