#pragma once

#include <vector>

#include "tile/tile_structure.h"

namespace weft {

/// The loops of a tile program in numbers: how often they run, and what their variables are in the
/// first iteration. Lengths that hang on an outer loop are their mean over its iterations, of which
/// the last may be a border; on several, over those of the shortest, in the middle of the others.
class FirstIteration {
 public:
  explicit FirstIteration(const TileProgram& program);

  /// The value of a variable in the first iteration: where a loop begins, what a size is bound to,
  /// 0 of offsets and axes.
  int64_t value(TileVarId var) const { return values_[static_cast<size_t>(var)]; }
  /// Iterations of the dimension that has the origin, and the points they go over.
  double trips(TileVarId origin) const { return trips_[static_cast<size_t>(origin)]; }
  int64_t length(TileVarId origin) const { return lengths_[static_cast<size_t>(origin)]; }
  /// Iterations of all dimensions.
  double trips(const TileLoop& loop) const;
  /// Elements of an offset or an axis in an iteration, on average.
  double box(TileVarId var) const { return boxes_[static_cast<size_t>(var)]; }

  /// Of a dimension: iterations that are whole steps, and what the others have of one.
  struct Border {
    double whole = 0, others = 0;  ///< iterations
    double rest = 0;               ///< elements of one of the others
  };
  Border border(const TileLoop::Dim& dim) const;
  /// As if all iterations had so many elements.
  void set_box(TileVarId var, double elements) { boxes_[static_cast<size_t>(var)] = elements; }

  int64_t of(const IndexExpr& e) const;
  /// The index with each origin as what it is beyond its loop's begin: its range is then its own.
  IndexExpr expanded(const IndexExpr& e) const;

 private:
  void collect(const TileBody& body);
  void enter(const TileLoop::Dim& dim);
  int64_t in_middle(const IndexExpr& e) const;
  struct Length {
    double points = 0, trips = 0, whole = 0;
  };
  Length mean_length(const TileLoop::Dim& dim) const;

  const TileProgram& program_;
  std::vector<int64_t> values_, starts_, steps_, middles_, lengths_;
  std::vector<double> trips_, whole_, boxes_;
  std::vector<IndexExpr> begins_;  ///< expanded; of variables that are no origins 0
};

}  // namespace weft
