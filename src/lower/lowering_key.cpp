#include "lower/lowering_key.h"

#include <string>

#include "lower/core/values_in_outputs.h"
#include "tile/text/tile_text.h"

namespace weft {

namespace {

void add_number(Hasher& hasher, int64_t value) { hasher.add_value(static_cast<uint64_t>(value)); }

/// Of a value's memory: how its elements are addressed. How many there are along the outermost axis
/// only says how much of it there is.
void add_memory(Hasher& hasher, const SymbolScope& scope) {
  add_number(hasher, static_cast<int64_t>(scope.extents.size()));
  for (size_t a = 1; a < scope.extents.size(); ++a) add_number(hasher, scope.extents[a]);
  for (const IndexExpr& base : scope.base) hasher.add_text(print(base));
  add_number(hasher, scope.copies);
  for (const SymbolScope::Part& part : scope.parts) add_number(hasher, part.trips);
}

}  // namespace

Hash128 lowering_key(const TileProgram& program, const ScopeAnalysis& scopes,
                     const Target& target) {
  Hasher hasher;
  TileProgram plain = program;
  plain.name = "k";
  for (size_t v = 0; v < plain.vars.size(); ++v) plain.vars[v].name = "i" + std::to_string(v);
  for (size_t s = 0; s < plain.symbols.size(); ++s) plain.symbols[s].name = "v" + std::to_string(s);
  hasher.add_text(print(plain));
  const auto in_outputs = lowering::find_values_in_outputs(program, scopes, target);
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    const SymbolScope& scope = scopes.symbols[s];
    add_number(hasher, static_cast<int64_t>(scope.scope));
    // Those that lie in outputs move the others all the same.
    if (scope.scope == Scope::kBlock) add_number(hasher, scope.offset);
    const bool in_memory = scope.scope >= Scope::kBlock;
    if (in_memory && !in_outputs.contains(static_cast<TileSymbolId>(s))) add_memory(hasher, scope);
  }
  for (const BarrierPoint& barrier : scopes.barriers) {
    add_number(hasher, static_cast<int64_t>(barrier.scope));
    for (const int32_t step : barrier.before) add_number(hasher, step);
  }
  return hasher.digest128();
}

}  // namespace weft
