#pragma once

#include <map>
#include <set>
#include <vector>

#include "tile/places.h"
#include "tile/scope_analysis.h"

namespace weft {

/// How often blocks run a statement: once for each distinct value of the grid indices that it uses
/// (rule 3), where block b of B takes the b-th contiguous part of a nest's iterations.

/// Origins of grid and cluster loops that each site depends on: in its indices, conditions and loop
/// bounds, or through the values that it reads from its own iteration.
std::vector<std::set<TileVarId>> grid_dependences(const TileStructure& structure,
                                                  const ScopeAnalysis& scopes);

/// The iterations of the grid loops around a site, in order: the values of the origins, and the
/// block that runs each.
struct GridIterations {
  std::vector<TileVarId> origins;
  std::vector<std::vector<int64_t>> values;
  std::vector<int64_t> block;
};
/// All grid loops of the nest in which `site` stands (deeper ones than the site's, too). Requires
/// bound sizes; at most `limit` iterations, else an error.
Result<GridIterations> grid_iterations(const TileStructure& structure, const Site& site,
                                       int64_t limit);

/// How many blocks run the site for the iterations with these values of its own grid origins (those
/// of loops around it): keyed by the values, in the order of `origins`. Only the first of the
/// iterations that a block cannot tell apart counts, and of what so many blocks `together` make
/// that of one of them.
std::map<std::vector<int64_t>, int64_t> execution_counts(const GridIterations& iterations,
                                                         const std::vector<TileVarId>& around,
                                                         const std::set<TileVarId>& used,
                                                         int64_t together = 1);

/// Blocks that make a site's value once for all of them: a cluster in a loop `by cluster`, else 1.
int64_t blocks_together(const TileStructure& structure, const Site& site);

/// Statements whose value a block of several iterations keeps, with the number n of dimensions of
/// the grid loop around it that it depends on, where only those behind the first n change from one
/// iteration to the next: a GPU's blocks make it once for each value of these n.
///     grid b in 4, i in 1000 { w[j] = scale[b,j]; … }  on 8 blocks  ->  w: 1
/// Such statements stand directly in the one grid loop of a program's only nest, or there in a loop
/// `by cluster`, and read inputs and each other alone.
std::map<const TileStatement*, size_t> kept_statements(const TileStructure& structure,
                                                       const ScopeAnalysis& scopes);

/// Warps that request the same element of a read: those that its variables do not tell apart. 1 on
/// a CPU.
int64_t warp_copies(const TileStructure& structure, const ScopeAnalysis& scopes,
                    const PlaceTable& places, const ReadSite& read);

/// Offset and axis variables of a read, runtime indices included.
std::set<TileVarId> read_variables(const TileProgram& program, const Scalar& read);

}  // namespace weft
