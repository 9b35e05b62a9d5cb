#pragma once

#include <set>

#include "tile/tile_program.h"

namespace weft::lowering {

/// The exponents that cannot be positive, because a maximum over them was subtracted: nodes `e - M`
/// where the program made M as the maximum of e over a range that holds every e read here. A NaN
/// in the range makes M, and so the exponent, NaN.
///     m' = max(m, x[i,j]) over seq j;  M = max[jj] m[jj];  exp(x[i,h] - M)  ->  { x[i,h] - M }
/// Loops over one range may have different variables, and a value computed again in a later sweep
/// is the same value. Finds only what it can prove; a node it misses costs time alone.
std::set<const Scalar*> find_shifted_exponents(const TileProgram& program);

}  // namespace weft::lowering
