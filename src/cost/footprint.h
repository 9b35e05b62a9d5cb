#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cost/first_iteration.h"
#include "tile/scope_analysis.h"

namespace weft {

/// What a statement reads or writes in memory or scratch, as a box in the symbol's coordinates that
/// grows with the loops that go through it.
class Footprint {
 public:
  /// `indices`: coordinates of the symbol. `read` (may be null): its runtime indices.
  Footprint(const TileProgram& program, const ScopeAnalysis& scopes, const FirstIteration& numbers,
            TileSymbolId symbol, const std::vector<IndexExpr>& indices, const Scalar* read);

  /// Along one coordinate: where it begins and ends, and how many values it takes at most.
  struct Extent {
    Interval hull;
    double points = 1;
    friend bool operator==(const Extent&, const Extent&) = default;
  };
  struct Box {
    std::vector<Extent> extents;
    double times = 1;  ///< places that data say, each of which has such a box
    friend bool operator==(const Box&, const Box&) = default;
  };

  TileSymbolId symbol() const { return symbol_; }
  /// While the loops with these origins run, and the others stand at their first iteration.
  Box box(std::span<const TileVarId> running) const;
  /// In lines of caches.
  double bytes(const Box& box) const;
  /// What the box takes of a cache. Lines a constant distance apart share few of its sets: where
  /// these do not hold them, as much as if all sets were filled like them.
  double crowded_bytes(const Box& box, int64_t cache_bytes) const;

 private:
  double points_of(int var, std::span<const TileVarId> running) const;
  Interval range_of_variable(int var, std::span<const TileVarId> running) const;
  Interval hull_along(size_t d, std::span<const TileVarId> running) const;

  const TileProgram& program_;
  const FirstIteration& numbers_;
  TileSymbolId symbol_;
  std::vector<IndexExpr> coordinates_;       ///< expanded, within the buffer
  std::vector<std::vector<int>> variables_;  ///< of each
  std::vector<std::optional<AffineForm>> forms_;
  std::vector<int> of_data_;  ///< variables that runtime indices hang on
  std::vector<int64_t> shape_;
  Layout layout_;
  int64_t element_ = 4;
};

/// Of a cache.
inline constexpr int64_t kLineBytes = 64;
/// Of a second cache.
inline constexpr int64_t kSecondCacheWays = 8;
/// Sets of a cache with ways of so many bytes in which lines `step` bytes apart lie: they are found
/// by the bits of an address within a way.
int64_t sets_reached(int64_t step, int64_t way);

/// Distinct bytes of several, where one symbol's boxes that meet count as one.
double bytes_of_all(std::span<const Footprint* const> footprints,
                    std::span<const TileVarId> running);

/// What they take of a cache beyond their distinct bytes, since lines of one symbol share few sets.
double crowded_bytes_of_all(std::span<const Footprint* const> footprints,
                            std::span<const TileVarId> running, int64_t cache_bytes);

}  // namespace weft
