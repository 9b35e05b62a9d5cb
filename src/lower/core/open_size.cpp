#include "lower/core/open_size.h"

namespace weft {

bool is_open_size(const TileProgram& program, TileVarId var) {
  const TileVar& size = program.vars[static_cast<size_t>(var)];
  return size.kind == TileVar::Kind::kSize && size.extent == 0 && !uses_var(program.blocks, var);
}

}  // namespace weft
