#pragma once

#include <map>
#include <utility>
#include <vector>

#include "target/target.h"
#include "tile/scope_analysis.h"
#include "tile/tile_program.h"

namespace weft::lowering {

/// Where a value lies in an output: the element of coordinates c at `indices`, in which the origin
/// of the a-th pair of `coordinates` stands for c[a] and its offset (-1 if there is none) for 0.
struct ValueInOutput {
  TileSymbolId output = -1;
  std::vector<IndexExpr> indices;
  std::vector<std::pair<TileVarId, TileVarId>> coordinates;

  std::vector<IndexExpr> indices_of(const std::vector<IndexExpr>& element) const;
};

/// The values of scratch scope that need no scratch, because each of their elements may lie where a
/// later loop of the same grid iteration stores an element of an output, which is the last that is
/// done with it:
///     seq j { E[j] = exp(x[i,j] - M); … }  seq j' { y[i,j'] = E[j'] / Z; }   ->   E[j] in y[i,j]
/// That saves the copy, and the lines of the output are fetched while the earlier loop computes.
/// Both loops must run over the same range and both tensors be of one type; no output holds two
/// values, and one that goes past the caches (kernel/stream_outputs) none.
std::map<TileSymbolId, ValueInOutput> find_values_in_outputs(const TileProgram& program,
                                                             const ScopeAnalysis& scopes,
                                                             const Target& target);

}  // namespace weft::lowering
