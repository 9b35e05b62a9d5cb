#pragma once

#include <map>
#include <vector>

#include "schedule/stages/block_space.h"
#include "schedule/stages/demand_boxes.h"
#include "tile/tile_program.h"

namespace weft {

/// A box's axis: how the program calls its elements.
struct BoxVar {
  IndexExpr index = 0;
  TileVarId var = -1;  ///< an offset or an axis; -1: one element
  int64_t extent = 1;  ///< with what lies beyond the tensor
  int64_t full = 1;    ///< without
};

/// The loops of a chain on fragments, and the boxes of its members in them.
class FragmentBoxes {
 public:
  /// `row_loop`: the partition's loop over rows. `unit`: of what no axis' length has to be a
  /// multiple. `in_cluster`: blocks that have the parts of the axis are a cluster.
  FragmentBoxes(const BlockSpace& space, const BlockPartition& partition, int row_loop,
                const DemandBoxes& demand, int64_t unit, bool in_cluster, TileProgram* program);

  /// Makes the loops and the boxes. Error (kUnsupported): a box that no loop walks.
  Status find();
  /// Gives what stands behind the steps, in a nest of its own, boxes of other rows and columns:
  /// tiles of theirs of so many elements, over the whole tensors. In a cluster each block goes over
  /// its share of the rows that all have. Error (kUnsupported): members that have more than rows
  /// and columns.
  struct Tile {
    int64_t rows = 2, columns = 2;
  };
  Status move_behind(const Tile& tile);
  /// Of all members behind the steps, the axis beside the rows; of one element: they have none.
  Result<BoxVar> columns_behind() const;

  const BoxVar& of(int p, int var) const {
    return boxes_[static_cast<size_t>(p)][static_cast<size_t>(var)];
  }
  /// What members make, in the coordinates of their tensors.
  std::vector<IndexExpr> indices_of(int p) const;

  /// Loops of the blocks' nest: over the parts of the axis (but of a cluster), of the partition, of
  /// one iteration.
  std::vector<TileLoop::Dim> over_blocks() const;
  TileLoop::Dim over_parts() const;
  const TileLoop::Dim& loop(int l) const { return loops_[static_cast<size_t>(l)]; }
  const TileLoop::Dim& steps() const { return loops_[static_cast<size_t>(demand_.carrying)]; }
  /// What of the axis, or of its part, lies before and behind the steps: masks leave nothing of it.
  /// Dimensions without a variable; empty where begin and end are the same.
  std::vector<TileLoop::Dim> out_of_reach() const { return {before_, behind_steps_}; }
  /// Those of the nest behind; `move_behind` made them.
  const std::vector<TileLoop::Dim>& behind() const { return behind_; }
  /// Of the axis, the part at hand; -1: it is not split.
  TileVarId part() const { return part_; }
  /// The rows of the blocks, and of the nest behind.
  const BoxVar& rows() const { return rows_; }
  const BoxVar& rows_behind() const { return rows_behind_; }
  /// That counts the parts where they are joined.
  TileVarId parts_var() const { return parts_.var; }
  /// Elements between two values that a loop's origin may have; 1 for any other variable.
  int64_t unit_of(TileVarId id) const;

 private:
  using Part = CarriedProgram::Part;

  void make_loops();
  void bound_steps();
  TileLoop::Dim add_loop(const std::string& name, int64_t step, int64_t end);
  BoxVar add_behind(const std::string& name, const BoxVar& of, IndexExpr first, int64_t length,
                    int64_t step);
  int64_t length_of(size_t l) const;
  BoxVar whole_axis(int64_t extent, int ordinal);
  bool is_behind(int p) const {
    return demand_.members[static_cast<size_t>(p)].level - demand_.over_blocks ==
           static_cast<int>(Part::kBehind);
  }

  const BlockSpace& space_;
  const BlockPartition& partition_;
  const int row_loop_;
  const DemandBoxes& demand_;
  const int64_t unit_;
  const bool in_cluster_;
  TileProgram& program_;
  std::vector<TileLoop::Dim> loops_, behind_;
  TileLoop::Dim before_, behind_steps_;  ///< out of the steps' reach
  std::vector<TileLoop::Dim> once_;      ///< of one iteration: axes with what lies beyond them
  std::map<std::pair<int64_t, int>, BoxVar> whole_;
  std::vector<std::vector<BoxVar>> boxes_;  ///< by member and variable
  BoxVar rows_, rows_behind_, parts_;
  TileVarId part_ = -1;
};

/// How the warps of a block share what they make: one below another along the rows, as far as each
/// has rows of its own; where these are few, several side by side along the columns.
struct WarpGrid {
  int64_t down = 1, across = 1;
  bool on_units = true;

  WarpGrid() = default;
  WarpGrid(int64_t warps, int64_t rows, bool on_units);
  /// Columns that they share evenly, in whole steps of the units through a depth.
  int64_t unit() const;
};

/// Whether blocks that have parts of an axis form a cluster, so that they join what these left out
/// of each other's memory: each takes as many of their rows.
bool parts_form_cluster(int64_t splits, int64_t rows, const Target& target);

/// What one of the parts goes through, in whole steps; the last may have less.
int64_t length_of_part(int64_t extent, int64_t step, int64_t splits);

}  // namespace weft
