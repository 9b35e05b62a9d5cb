#pragma once

#include <string_view>

#include "target/target.h"
#include "tile/scope_analysis.h"

namespace weft {

/// What a built kernel is predicted to take, and by what.
struct Latency {
  enum class Bound : uint8_t { kInstructions, kSecondCache, kThirdCache, kMemory };
  double microseconds = 0;
  bool alone = true;      ///< one thread makes all of it
  double start_us = 0;    ///< launch, and the barriers behind its phases
  double compute_us = 0;  ///< of the busiest core: its ports, or chains of results that it awaits
  /// Of what comes from each level of memory because it does not stay in the one before.
  double second_cache_us = 0, third_cache_us = 0, memory_us = 0;
  Bound bound = Bound::kInstructions;
};
std::string_view bound_name(Latency::Bound bound);

/// The evaluator `latency` of CPUs (FusionStitching 2021 §4.3 for GPUs): looks at the loops, places
/// and scopes of the tile program, so that leaves and blocks of stages are priced alike.
///
/// The time is the largest of what the ports of the busiest core take and what the caches and
/// memory take to move what each level does not hold, and a few percent of the others. Data stay in
/// a level over the iterations of a loop where one iteration touches no more than the level has.
/// Never below the time of distinct bytes at the bandwidth curve.
///
/// Requires: a program of a CPU, with its scopes. Blocks and chains are weighed before they are
/// verified: of what does not verify the time says nothing. Sizes that are not bound count as 1.
Latency cpu_latency(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target);

/// What a phase takes on one thread at least where the threads of a run gain by sharing it: behind
/// it they meet.
double least_shared_us(const Target& target);

}  // namespace weft
