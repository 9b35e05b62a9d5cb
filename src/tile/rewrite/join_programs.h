#pragma once

#include <span>
#include <string>
#include <vector>

#include "tile/tile_program.h"

namespace weft {

/// One program that runs the given ones one after another on the same blocks (Souffle §6.2, AStitch
/// §4.2): what earlier ones store later ones read behind a barrier of the grid.
///     a(x, out y) { A }, b(y, out z) { B }  ->  name(x, out y, out z) { view y1 of y; A B }
/// `parameter_of[p][i]` is the number that parameter i of program p has in the result; parameters
/// of one number are one tensor. Where a program reads what one before it stores it sees a view, in
/// the shape in which it was written. A block has the warps of the widest program; what narrower
/// ones compute has copies in the warps left over. A CPU's programs, of any number of threads, are
/// one of as many; `blocks` is of a GPU's.
///
/// Recurrences may be among them: their steps see views of what earlier programs store.
///
/// Requires: programs of one kind of target without packs and cluster loops, extents of the tensors
/// that are handed on constant and row-major; sizes of one name are one size.
TileProgram join_programs(std::string name, std::span<const TileProgram* const> programs,
                          const std::vector<std::vector<int32_t>>& parameter_of, int64_t blocks);

}  // namespace weft
