#include "tile/rewrite/bind_tile_sizes.h"

#include "fmt/format.h"

namespace weft {

Result<TileProgram> bind_tile_sizes(const TileProgram& program,
                                    const std::map<std::string, HostTensor>& inputs,
                                    const std::map<std::string, int64_t>& sizes) {
  TileProgram bound = program;
  const auto bind = [&](TileVar& var, int64_t value) -> Status {
    if (value < 1 || (var.extent > 0 && var.extent != value)) {
      return invalid_input(fmt::format("tile program {}: size {} is {} and {}", program.name,
                                       var.name, var.extent, value));
    }
    var.extent = value;
    return {};
  };
  for (TileVar& var : bound.vars) {
    const auto given = sizes.find(var.name);
    if (var.kind != TileVar::Kind::kSize || given == sizes.end()) continue;
    var.extent = 0;
    WEFT_RETURN_IF_ERROR(bind(var, given->second));
  }
  for (const TileSymbolId id : program.parameters) {
    const TileSymbol& symbol = program.symbols[static_cast<size_t>(id)];
    const auto input = inputs.find(symbol.name);
    if (input == inputs.end() || input->second.shape().size() != symbol.shape.size()) continue;
    for (size_t a = 0; a < symbol.shape.size(); ++a) {
      if (!symbol.shape[a].is_var()) continue;
      WEFT_RETURN_IF_ERROR(bind(bound.vars[static_cast<size_t>(symbol.shape[a].var_id())],
                                input->second.shape()[a]));
    }
  }
  return bound;
}

}  // namespace weft
