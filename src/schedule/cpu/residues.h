#pragma once

#include <map>
#include <vector>

#include "group/group_space.h"
#include "schedule/writer/tile_builder.h"

namespace weft {

/// Where a sum's terms are zero but for `axis + tap` congruent to `offset` modulo `step`: a
/// transposed convolution, whose input stands `step` apart between zeros.
struct Residue {
  int axis = -1, tap = -1;  ///< of the result; of those that are summed up
  int64_t step = 1, offset = 0;
};

/// Those of the reduction at position `root`, no axis or tap twice. `vec_axis` is left whole, and
/// so are axes and taps whose length is open.
std::vector<Residue> residues_of(const GroupSpace& space, int root, int vec_axis);

/// Elements of the axis that have the same residue, those that a tile's loop goes over.
int64_t length_of_residue(const GroupSpace& space, int root, int axis, int vec_axis);

/// The loops of a sum, of which each residue of an axis takes the taps that are not zero:
///     y[w] = sum[t] (w + t) % 2 == 0 ? x[(w + t) / 2] * k[t] : 0
///     ->  grid p in 2, v in W/2 { seq j in T/2 { y[2*v + p] += x[v + j + p] * k[2*j + p] } }
/// Where a residue's length or first tap is no sum of loops' positions, the loops go over first
/// taps f, and the other one has bounds:
///     y[w] = sum[t] (w + t) % s == o ? x[(w + t) / s] * k[t] : 0
///     ->  grid g { seq f in max(0, s*g + o - W + 1) .. min(s, s*g + o + 1) {
///           seq j in (T - f + s - 1)/s { y[s*g + o - f] += x[g + j] * k[s*j + f] } } }
class ResidueLoops {
 public:
  ResidueLoops(TileBuilder* builder, std::vector<Residue> residues);

  bool any() const { return !residues_.empty(); }
  /// Whether some loop has bounds that another one says, and can be none of a grid.
  bool any_bounded() const;
  /// The loop over an axis in tiles of `step`, behind one over its residues where it has some; one
  /// that is bounded is added to `bounded`. Returns the offset in a tile, -1 where `step` is 1.
  TileVarId add_axis(TileLoop* loop, int axis, int64_t step, TileLoop* bounded);
  /// The loop over a tap, or any other axis that is summed up, to be added to a loop inside.
  TileLoop::Dim tap(int axis, int64_t step);
  /// Whether all residues have equally many taps.
  bool takes_as_many_taps(int axis) const;
  /// Where an element lies among those of the tiles, which stands for the axis in boxes.
  IndexExpr coordinate(int axis) const;
  /// A sum's term at the present indices, its conditions decided where the loops decide them.
  ScalarRef simplified(const ScalarRef& term) const;

 private:
  int64_t extent(int axis) const;
  bool is_bounded(const Residue& r) const;
  TileVarId add_bounded(TileLoop* loop, const Residue& r, int64_t step, TileLoop* bounded);

  TileBuilder& b_;
  std::vector<Residue> residues_;
  std::map<int, IndexExpr> first_tap_;   ///< by axis: of the residue
  std::map<int, IndexExpr> coordinate_;  ///< by axis
};

}  // namespace weft
