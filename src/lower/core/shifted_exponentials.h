#pragma once

#include <set>

#include "tile/tile_program.h"

namespace weft::lowering {

/// The exponentials whose argument cannot be positive, because a maximum over it was subtracted:
/// nodes `exp(e - M)` where the program made M as the maximum of e over a range that holds every e
/// read here. A NaN in the range makes M, and so the argument, NaN.
///     m' = max(m, x[i,j]) over seq j;  M = max[jj] m[jj];  y = exp(x[i,h] - M)  ->  that exp
///     m' = max(m, max[j] x[i,j]);  e = exp(x[i,j] - (m' == -inf ? 0 : m'))              ->  that
///     exp
///     v = max(m, max[j] x[i,j]);  e = exp(x[i,j] - v);  s = exp(m - v)             ->  both
/// Loops over one range may have different variables, and a value computed again in a later sweep
/// is the same value. Finds only what it can prove; a node it misses costs time alone.
std::set<const Scalar*> find_shifted_exponentials(const TileProgram& program);

}  // namespace weft::lowering
