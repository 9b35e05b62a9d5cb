#pragma once

#include "expr/products/minimal_filtering.h"
#include "target/target.h"

namespace weft {

/// What a CPU takes for a sum over windows, in microseconds, by its rates alone: the kernels of
/// either way are yet to be planned. Weights come from memory, once.
struct WindowTime {
  double direct_us = 0;
  /// By minimal filtering: its products, and what is made before and behind them, written to a
  /// cache and read from it.
  double filtered_us = 0;
};
WindowTime window_time(const WindowSum& sum, const Target& target);

/// Whether minimal filtering is clearly quicker, vectors of it lie side by side, and weights that
/// take 16/9 of their memory are worth it; not where the processor multiplies their factors in
/// pairs.
bool pays_filtered(const WindowSum& sum, const Target& target);

}  // namespace weft
