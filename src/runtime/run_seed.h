#pragma once

#include <cstdint>

namespace weft {

/// The seed of the next run that draws random numbers: one of a sequence of this process, which
/// begins at random. From any thread.
uint64_t next_run_seed();

/// Begins the sequence anew: the same value gives the same seeds.
void set_run_seed(uint64_t seed);

}  // namespace weft
