#pragma once

#include <cstdlib>
#include <optional>
#include <vector>

#include "import/hlo/translator.h"

namespace weft::hlo {

/// A `while`: what it hands from one iteration to the next, flattened.
struct Loop {
  const HloComputation& condition;
  const HloComputation& body;
  std::vector<ValueId> inits;   ///< of the graph around
  std::vector<bool> invariant;  ///< by value: each iteration hands on what it got
};

/// first + step * iteration.
struct Progression {
  int64_t first = 0, step = 0;
  friend bool operator==(const Progression&, const Progression&) = default;
};

/// Whether sums of such numbers over a loop's iterations stay far from overflow.
inline bool is_small(const Progression& p) {
  constexpr int64_t kMost = int64_t{1} << 32;
  return std::abs(p.first) <= kMost && std::abs(p.step) <= kMost;
}

/// An integer of the loop that takes first, first + step, … in `trips` iterations, after which the
/// condition ends the loop.
struct LoopCounter {
  size_t leaf = 0;
  Progression values;
  int64_t trips = 0;
  /// By value: other integers that move by the counter's step, or by its negative.
  std::vector<std::optional<Progression>> companions;
};

/// Whether the body's root is a tuple of arrays, each of them made in the body itself: then what an
/// iteration does to one can be told without the others.
bool says_elements(const HloComputation& body);

/// The counter by which a loop's trip count is known. Adds nothing to the graph that stays.
std::optional<LoopCounter> find_counter(InstructionContext& n, const Loop& loop);

/// The loop's results as those of a scan: arrays of which each iteration reads one row are scanned,
/// those of which it writes one are stacked.
Leaves make_counted_loop(InstructionContext& n, const Loop& loop, const LoopCounter& counter);

/// Arrays that no iteration changes, captured where they are read.
class InvariantArrays : public LoopArrays {
 public:
  InvariantArrays(const Loop& loop, GraphBuilder& region) : loop_(loop), region_(region) {}
  /// The region's arguments: its inputs for what changes, deferred values for the rest.
  Leaves arguments(InstructionContext& n);

  ValueId whole(const Deferred& array) override { return region_.capture(loop_.inits[array.leaf]); }
  std::optional<ValueId> read_row(const Deferred&, ValueId) override { return std::nullopt; }
  std::optional<Deferred> write_row(const Deferred&, ValueId, ValueId) override {
    return std::nullopt;
  }

 private:
  const Loop& loop_;
  GraphBuilder& region_;
};

}  // namespace weft::hlo
