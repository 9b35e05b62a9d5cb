#include "tile/analysis/view_parts.h"

#include <algorithm>
#include <set>

#include "support/tensor.h"

namespace weft {

namespace {

constexpr int64_t kMostPlaces = int64_t{1} << 20;

/// Whether views of one tensor, at places over the same variable, never share an element in one
/// iteration.
bool are_disjoint(const TileStructure& structure, const TileSymbol& a, const TileSymbol& b) {
  const auto own = places_of(structure, a), other = places_of(structure, b);
  const auto m = elements_of(a), n = elements_of(b);
  if (!own || !other || !m || !n || own->size() != other->size()) return false;
  for (size_t i = 0; i < own->size(); ++i) {
    const int64_t x = (*own)[i], y = (*other)[i];
    if (x < y + *n && y < x + *m) return false;
  }
  return true;
}

}  // namespace

std::optional<int64_t> elements_of(const TileSymbol& symbol) {
  Shape shape;
  for (const IndexExpr& e : symbol.shape) {
    if (!e.is_const()) return std::nullopt;
    shape.push_back(e.constant());
  }
  return element_count(shape);
}

std::optional<std::vector<int64_t>> places_of(const TileStructure& structure,
                                              const TileSymbol& view) {
  const std::vector<int> vars = variables(view.at);
  if (vars.empty()) return std::vector<int64_t>{evaluate(view.at, [](int) { return int64_t{0}; })};
  const auto loop = structure.dim_of.find(vars[0]);
  if (vars.size() > 1 || loop == structure.dim_of.end()) return std::nullopt;
  const TileLoop::Dim& dim = structure.dim(vars[0]);
  if (!dim.begin.is_const() || !dim.end.is_const()) return std::nullopt;
  const int64_t begin = dim.begin.constant(), end = dim.end.constant();
  if (end - begin > kMostPlaces) return std::nullopt;
  std::vector<int64_t> places;
  for (int64_t t = begin; t < end; ++t) places.push_back(evaluate(view.at, [&](int) { return t; }));
  return places;
}

std::vector<TileSymbolId> view_parts(const TileStructure& structure) {
  const std::vector<TileSymbol>& symbols = structure.program->symbols;
  std::vector<TileSymbolId> parts(symbols.size(), -1);
  for (size_t i = 0; i < symbols.size(); ++i) {
    const TileSymbol& own = symbols[i];
    if (own.view_of < 0 || !structure.updates[static_cast<size_t>(own.view_of)].empty()) continue;
    for (size_t k = 0; k < symbols.size(); ++k) {
      const TileSymbol& other = symbols[k];
      if (other.view_of != own.view_of || variables(other.at) != variables(own.at)) continue;
      if (other.at == own.at) {
        if (parts[i] < 0) parts[i] = static_cast<TileSymbolId>(k);
      } else if (!are_disjoint(structure, own, other)) {
        parts[i] = -1;
        break;
      }
    }
  }
  return parts;
}

}  // namespace weft
