#pragma once

#include <map>
#include <string>

#include "support/tensor.h"
#include "tile/tile_program.h"

namespace weft {

/// The program with its sizes bound: those of `sizes`, and those that are a dimension of an input.
/// Error: two values for one size.
Result<TileProgram> bind_tile_sizes(const TileProgram& program,
                                    const std::map<std::string, HostTensor>& inputs,
                                    const std::map<std::string, int64_t>& sizes);

}  // namespace weft
