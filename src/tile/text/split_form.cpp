#include "tile/text/split_form.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "tile/tile_structure.h"

namespace weft {

namespace {

/// What a block has of one dimension.
struct Share {
  int64_t length = 1, extent = 1;
  bool moves = false;  ///< from block to block
};

/// Of a store; nothing where a length or a box is not known, or nothing is stored.
std::optional<std::vector<Share>> shares_of(const TileStructure& structure, const Site& site,
                                            const TileRef& target) {
  const TileProgram& program = *structure.program;
  const auto over_blocks = [&](TileVarId var) {
    const auto dim = structure.dim_of.find(var);
    return dim != structure.dim_of.end() && dim->second.first->kind != TileLoop::Kind::kSeq &&
           std::ranges::find(site.loops, dim->second.first) != site.loops.end();
  };
  const TileSymbol& symbol = program.symbols[static_cast<size_t>(target.symbol)];
  const IndexBounds bounds(structure);
  std::vector<Share> out;
  for (size_t d = 0; d < target.indices.size(); ++d) {
    const Interval length = range_of(symbol.shape[d], structure.range());
    if (length.lo != length.hi || length.lo < 1) return std::nullopt;
    const Coordinate c = coordinate_of(target.indices[d], bounds, over_blocks);
    if (!c.separable || c.dynamic || c.inner.empty()) return std::nullopt;
    const auto vars = variables(c.outer);
    const bool moves = std::ranges::any_of(vars, [&](int var) { return over_blocks(var); });
    out.push_back({length.lo, std::min(c.inner.hi - c.inner.lo + 1, length.lo), moves});
  }
  return out;
}

/// Of dimensions in the order from the outermost cut on.
std::optional<SplitForm> row_of(const std::vector<Share>& shares) {
  const int rank = static_cast<int>(shares.size());
  int split = 0;  // behind the dimensions of which a block has one index
  const auto at = [&](int d) -> const Share& { return shares[static_cast<size_t>(d)]; };
  while (split + 1 < rank && at(split).extent == 1 && (at(split).moves || at(split).length == 1))
    ++split;
  for (int d = split + 1; d < rank; ++d) {
    if (at(d).extent != at(d).length) return std::nullopt;
  }
  if (rank == 0) return SplitForm{};
  const Share& own = at(split);
  if (own.length % own.extent != 0 || own.moves != (own.extent < own.length)) return std::nullopt;
  SplitForm out{false, split, own.length / own.extent};
  // Not to cut a dimension is to cut the one in front of it into single indices.
  while (out.sword == 1 && out.split_dim > 0) out.sword = at(--out.split_dim).length;
  return out;
}

std::optional<SplitForm> form_of(std::vector<Share> shares) {
  if (const auto row = row_of(shares)) return row;
  std::ranges::reverse(shares);
  auto column = row_of(shares);
  if (!column) return std::nullopt;
  return SplitForm{true, static_cast<int>(shares.size()) - 1 - column->split_dim, column->sword};
}

}  // namespace

std::string print(const SplitForm& form) {
  return fmt::format("{}(split_dim {}, sword {})", form.column ? "Column" : "Row", form.split_dim,
                     form.sword);
}

std::map<TileSymbolId, SplitForm> split_forms(const TileProgram& program) {
  const TileStructure structure = structure_of(program);
  std::map<TileSymbolId, std::optional<SplitForm>> found;
  for (const Site& site : structure.sites) {
    if (site.kind != Site::Kind::kStatement) continue;
    for (const TileRef& target : site.statement->targets) {
      if (program.symbols[static_cast<size_t>(target.symbol)].kind != TileSymbol::Kind::kOutput)
        continue;
      const auto shares = shares_of(structure, site, target);
      const std::optional<SplitForm> own = shares ? form_of(*shares) : std::nullopt;
      const auto [known, is_new] = found.try_emplace(target.symbol, own);
      if (!is_new && known->second != own) known->second.reset();
    }
  }
  std::map<TileSymbolId, SplitForm> out;
  for (const auto& [symbol, form] : found) {
    if (form) out.emplace(symbol, *form);
  }
  return out;
}

}  // namespace weft
