#include "support/hash.h"
#include "tile/text/tile_text.h"

namespace weft {

/// The hash of the text under names that say nothing.
uint64_t tile_program_hash(const TileProgram& program) {
  TileProgram plain = program;
  plain.name = "k";
  for (size_t i = 0; i < plain.vars.size(); ++i) plain.vars[i].name = "i" + std::to_string(i);
  for (size_t i = 0; i < plain.symbols.size(); ++i) {
    plain.symbols[i].name = "v" + std::to_string(i);
  }
  // An offset is called as its loop is; what it is called of its own does not show.
  return hash64(print(plain));
}

}  // namespace weft
