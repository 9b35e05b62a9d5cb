#pragma once

#include <functional>
#include <set>
#include <string>

#include "tile/tile_program.h"

namespace weft {

/// Adds up long sums piece by piece: a sum rounds by its own size, whatever is added, so that one
/// register that takes many terms is off by as many roundings of the whole. Loops of at least 512
/// terms inside are the piece, 256 where nothing is loaded for several registers; a longer one is
/// cut.
///
///     seq k in 4096 carry s = 0 { s' = s + x[k] }
///       ->  seq piece in 8 carry s = 0 {
///             seq k in piece*512 .. piece*512+512 carry part = 0 { part' = part + x[k] }
///             s' = s + part
///           }
///
/// What else such a loop carries (a maximum, say) comes along. Loops whose extents are not known,
/// or along an axis of `open`, stay as they are. `unique` gives new names.
///
/// Higham: The accuracy of floating point summation (1993), on blocked sums.
void sum_in_pieces(TileProgram& program, const std::set<TileVarId>& open,
                   const std::function<std::string(const std::string& base)>& unique);

}  // namespace weft
