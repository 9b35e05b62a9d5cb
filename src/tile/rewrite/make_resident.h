#pragma once

#include <cstdint>

#include "tile/tile_program.h"

namespace weft {

/// Boxes of inputs that blocks read in every step of a recurrence are loaded before its first one,
/// and stay in the blocks' memory (Souffle §6.3: the weights of an LSTM on chip; PersistentRNN,
/// ICML'16).
///     seq t in 100 { grid a in 1024 step 8 { … sum[j] W[a,j]*h[j] … } … }
///     ->  grid b in 1024 step 8 { W_kept[b,j] = W[b,j]; }
///         seq t in 100 { grid a in 1024 step 8 { … sum[j] W_kept[a,j]*h[j] … } … }
/// `room`: bytes of a block's memory for all of them, in the order of the text; what does not fit
/// is read in each step, as before.
///
/// Boxes are those of nests whose iteration b block b runs (tile/analysis/same_blocks.h), without
/// gathers, reads with a fill, loads of several stages and what stands under conditions. Requires:
/// a GPU's program. Establishes: the same values. Returns whether the program changed.
bool make_resident(TileProgram& program, int64_t room);

}  // namespace weft
