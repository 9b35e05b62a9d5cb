#pragma once

#include <set>
#include <string>
#include <vector>

#include "tile/tile_program.h"

namespace weft {

/// Takes programs over into one whose variables and symbols have other numbers.
class ProgramTaker {
 public:
  explicit ProgramTaker(TileProgram* out) : out_(*out) {}

  /// A symbol under a name that no other symbol has. Its shape is over constants.
  TileSymbolId add_symbol(TileSymbol symbol);

  /// The body of `from`, with `parameters` (symbols of the result) in the place of its own; one of
  /// -1 is made. Sizes are those of the same name, but for `sizes`: variables of the result that
  /// stand for those of `from` behind its first, in their order.
  ///
  /// Requires: no pack.
  TileBody take(const TileProgram& from, std::vector<TileSymbolId>* parameters,
                const std::vector<TileVarId>& sizes = {});
  /// An index of the program that was taken last.
  IndexExpr renumbered(const IndexExpr& e) const;

 private:
  TileVarId take_var(const TileVar& var);
  /// What a view of the program at hand shows, in the result; of a view, what that shows.
  void show(TileSymbolId id);
  ScalarRef renumbered(const ScalarRef& s) const;
  void renumber(TileVarId& id) const;
  void renumber(TileRef& ref) const;
  void renumber(Place& place) const;
  void renumber(TileStatement& st) const;
  void renumber(TileLoop& loop) const;
  void renumber(TileBody& body) const;

  TileProgram& out_;
  std::set<std::string> names_;        ///< of symbols
  std::vector<TileVarId> vars_;        ///< by variable of the program at hand
  std::vector<TileSymbolId> symbols_;  ///< by symbol of it
};

}  // namespace weft
