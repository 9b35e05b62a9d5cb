#pragma once

#include <vector>

#include "tile/tile_program.h"

namespace weft {

/// Makes a value of what several statements of one body load from a parameter at the same indices:
/// a block asks memory for it once and keeps it in registers.
///     m = max[j] x[i,j]; e[j] = x[i,j] - m  ->  v[j] = x[i,j]; m = max[j] v[j]; e[j] = v[j] - m
///
/// Reads that some branch of a select may leave out stay as they are, and so do gathers and reads
/// with a fill. Requires: places on the statements that read. Establishes: the same values.
/// Returns whether the program changed.
bool share_loads(TileProgram& program);

/// A value made of what a read loads from a parameter, over the box that the read moves with, which
/// lies as in the place of a reader.
struct LoadedValue {
  TileStatement load;
  ScalarRef value;  ///< to be read in place of the parameter
};
LoadedValue loaded_value(TileProgram& program, const ScalarRef& read, const Place& reader);

/// The reads of inputs in a value that happen whatever the values are, each occurrence; gathers and
/// reads with a fill are left out.
std::vector<ScalarRef> certain_reads(const TileProgram& program, const ScalarRef& value);

}  // namespace weft
