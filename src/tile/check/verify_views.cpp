#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "support/tensor.h"
#include "tile/analysis/relate_reads.h"
#include "tile/text/tile_printer.h"
#include "tile/tile_structure.h"

namespace weft {

namespace {

Error broken(const TileProgram& program, std::string what) {
  return {ErrorCode::kInvalidInput, fmt::format("tile program {}: {}", program.name, what)};
}

std::optional<int64_t> elements_of(const TileSymbol& symbol) {
  Shape shape;
  for (const IndexExpr& e : symbol.shape) {
    if (!e.is_const()) return std::nullopt;
    shape.push_back(e.constant());
  }
  return element_count(shape);
}

}  // namespace

Status verify_views(const TileProgram& program, const TileStructure& structure) {
  const auto symbol = [&](TileSymbolId id) -> const TileSymbol& {
    return program.symbols[static_cast<size_t>(id)];
  };
  for (const TileSymbol& view : program.symbols) {
    if (view.view_of < 0) continue;
    const TileSymbol& output = symbol(view.view_of);
    const auto elements = elements_of(view);
    if (view.type == output.type && elements && elements == elements_of(output) &&
        view.layout.is_row_major() && output.layout.is_row_major())
      continue;
    return broken(program,
                  fmt::format("{} has another type or number of elements than {}, which it shows",
                              view.name, output.name));
  }
  for (const ReadSite& read : structure.reads) {
    const TileSymbolId output = symbol(read.read->symbol).view_of;
    if (output < 0) continue;
    const Site& reader = structure.sites[static_cast<size_t>(read.site)];
    for (const Site& site : structure.sites) {
      if (site.kind != Site::Kind::kStatement) continue;
      const bool stores = std::ranges::any_of(site.statement->targets,
                                              [&](const TileRef& t) { return t.symbol == output; });
      if (!stores || nest_of(site) < nest_of(reader)) continue;
      return broken(program, fmt::format("{} is read before `{}` stores what it shows",
                                         symbol(read.read->symbol).name,
                                         TilePrinter(program).statement(*site.statement)));
    }
  }
  return {};
}

}  // namespace weft
