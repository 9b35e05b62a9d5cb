#pragma once

#include <map>
#include <optional>
#include <string>

#include "tile/tile_program.h"

namespace weft {

/// A schedule of FusionStitching (2018, §4.1): an operation's result is split along one dimension
/// into `sword` pieces, and a block has one of them. Row: for each index of the dimensions in front
/// of it, so that blocks = product of those x sword. Column: for each index of those behind it.
struct SplitForm {
  bool column = false;
  int split_dim = 0;
  int64_t sword = 1;
  friend bool operator==(const SplitForm&, const SplitForm&) = default;
};

/// `Row(split_dim 1, sword 8)`
std::string print(const SplitForm& form);

/// How the loops over blocks cut each output, by symbol. Left out: what is cut otherwise, into
/// pieces that are not equal, or by statements that differ; a Row stands for what is both.
std::map<TileSymbolId, SplitForm> split_forms(const TileProgram& program);

}  // namespace weft
