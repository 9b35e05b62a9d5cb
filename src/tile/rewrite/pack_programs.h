#pragma once

#include <span>
#include <string>
#include <vector>

#include "tile/tile_program.h"

namespace weft {

/// One program that runs each of the given ones on blocks of its own (FusionStitching 2019 §3.1,
/// kernel packing):
///     a(x, out y) blocks 4 { A }, b(x, out z) blocks 2 { B }
///     ->  name(x, out y, out z) blocks 6 { pack { share 4 { A } share 2 { B } } }
/// `parameter_of[p][i]` is the number that parameter i of program p has in the result; parameters
/// of one number are one tensor; `shares` are the blocks of each program. A block has the warps of
/// the widest program; what narrower ones compute has copies in the warps left over. A CPU's
/// programs, of any number of threads, are one of as many: a share is what there is to share out.
///
/// Requires: programs of one kind of target; sizes of one name are one size.
TileProgram pack_programs(std::string name, std::span<const TileProgram* const> programs,
                          const std::vector<std::vector<int32_t>>& parameter_of,
                          std::span<const int64_t> shares);

}  // namespace weft
