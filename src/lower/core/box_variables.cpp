#include "lower/core/box_variables.h"

#include <algorithm>

#include "lower/core/indices.h"

namespace weft::lowering {

void add_box_variables(const TileProgram& program, const IndexExpr& e,
                       std::vector<TileVarId>* vars) {
  for (const int id : variables(e)) {
    if (id >= kKernelVarBase) continue;
    const auto kind = program.vars[static_cast<size_t>(id)].kind;
    if (kind != TileVar::Kind::kOffset && kind != TileVar::Kind::kAxis) continue;
    if (std::find(vars->begin(), vars->end(), id) == vars->end()) vars->push_back(id);
  }
}

}  // namespace weft::lowering
