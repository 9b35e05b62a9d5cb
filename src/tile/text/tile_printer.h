#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft {

/// Writes the parts of a tile program in the language of docs/tile_program.md. Names are made
/// unique and fit for the language first: what is printed parses to an equal program whatever the
/// names were.
class TilePrinter {
 public:
  explicit TilePrinter(const TileProgram& program);

  /// The whole program; `scopes` adds comments with what was derived.
  std::string program(const ScopeAnalysis* scopes) const;

  std::string index(const IndexExpr& e) const;
  /// `context`: the type that a literal without a type would take here.
  std::string scalar(const ScalarRef& s, std::optional<DType> context) const;
  std::string statement(const TileStatement& s) const;
  std::string place(const Place& place) const;
  const std::string& symbol(TileSymbolId id) const { return symbols_[static_cast<size_t>(id)]; }
  const std::string& var(TileVarId id) const { return vars_[static_cast<size_t>(id)]; }

 private:
  struct Piece;  ///< text and how tightly it binds
  struct Comments;

  void name_symbols();
  void name_loops(const TileBody& body, std::vector<std::string>& open);
  std::string unique(std::string_view name, const std::vector<std::string>& open) const;

  /// "x: f32[4,8]".
  std::string declared(TileSymbolId id) const;
  std::string header() const;
  void body(const TileBody& body, int depth, std::vector<int32_t>& path, const Comments& comments,
            std::string& out) const;
  /// Views at places over a loop's variable; of -1 those at places that do not change.
  void views(TileVarId var, int depth, std::string& out) const;
  void loop_header(const TileLoop& loop, int depth, const Comments& comments,
                   std::string& out) const;
  std::string dim(const TileLoop::Dim& dim) const;
  std::string subscripts(const std::vector<IndexExpr>& indices,
                         const std::vector<ScalarRef>& runtime) const;
  std::string ref(const TileRef& ref) const;

  using Runtime = const std::vector<ScalarRef>*;
  Piece index_piece(const IndexExpr& e, Runtime runtime) const;
  Piece sum_piece(const IndexExpr& e, Runtime runtime) const;
  Piece leaf_piece(int id, Runtime runtime) const;
  Piece scalar_piece(const ScalarRef& s, std::optional<DType> context) const;
  Piece apply_piece(const Scalar& s, std::optional<DType> context) const;
  Piece read_piece(const Scalar& s) const;
  std::optional<DType> natural(const Scalar& s) const;

  const TileProgram& program_;
  std::vector<std::string> symbols_;
  std::vector<std::string> vars_;
  std::map<TileVarId, TileVarId> loop_of_origin_;  ///< origin -> offset of the same dimension
  std::map<TileVarId, TileVarId> loop_of_offset_;  ///< offset -> origin
  std::map<std::string, int, std::less<>> taken_;
};

}  // namespace weft
