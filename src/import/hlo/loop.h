#pragma once

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

/// An integer of the loop that takes first, first + step, … in `trips` iterations, after which the
/// condition ends the loop.
struct LoopCounter {
  size_t leaf = 0;
  int64_t first = 0, step = 0, trips = 0;
};

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
