#pragma once

#include <optional>
#include <vector>

#include "schedule/stages/block_space.h"
#include "schedule/stages/chain_axes.h"
#include "schedule/stages/demand_boxes.h"

namespace weft {

/// A chain on the fragments of a GPU's blocks, as its time depends on it.
struct FragmentTiles {
  int64_t rows = 64;   ///< of a block
  int64_t step = 64;   ///< along the shared axis
  int64_t made = 0;    ///< of a block, of what is made
  int64_t splits = 1;  ///< parts of the shared axis, over blocks
  FragmentsChoice choice;
  ReachedShare reached;  ///< of the steps, as masks bound them
  friend bool operator==(const FragmentTiles&, const FragmentTiles&) = default;
};

/// A product that stands before the steps, or behind them: a block has all that it makes of its
/// rows, and what it reduces.
struct ProductBeside {
  int64_t depth = 1, made = 1;
  bool before = true;
  bool of_inputs = true;  ///< may go through its depth in steps
};

/// What does not change with the tiles.
struct FragmentProblem {
  ContractionChain loops;
  int64_t bytes = 2;        ///< of a factor's element
  bool on_units = true;     ///< else on plain cores
  double gflops = 0;        ///< of the units or cores on this type
  double between = 0;       ///< instructions on each element of what the steps make
  int64_t reductions = 0;   ///< of a step's rows
  int64_t beside = 0;       ///< inputs of which a step has an element for each that it makes
  double memory_bytes = 0;  ///< that the kernel moves at least
  bool of_inputs = true;    ///< the product that makes a step's elements
  bool multiplies = false;  ///< a product reduces these; else rows are reduced alone
  bool bounded = false;     ///< masks bound the steps
  bool on_the_way = false;  ///< what a step loads passes through registers: no 4 bytes lie together
  std::vector<ProductBeside> others;

  /// Of products of inputs, the deepest.
  int64_t deepest() const;
};
FragmentProblem fragment_problem(const BlockSpace& steps, const CarriedProgram& carried,
                                 const ChainAxes& axes, double memory_bytes, const Target& target);

/// Shared memory of a block: the tiles of Eq. 1 (MCFuser §III-C) that do not lie in registers, each
/// once a stage.
int64_t fragment_bytes(const FragmentProblem& problem, const FragmentTiles& tiles,
                       const Target& target);

/// Microseconds by what limits a step (units or cores, shared memory, loads, its latency) over the
/// waves of blocks, in the manner of schedule/gpu/matrix_tile; MCFuser's Eq. 2 to 5 know neither.
/// Parts of the axis cost a barrier, and what each leaves is written and read again, in a cluster
/// on chip. None where a block, or where they wait for each other all blocks, do not fit the
/// target.
std::optional<double> fragment_us(const FragmentProblem& problem, const FragmentTiles& tiles,
                                  const Target& target);

}  // namespace weft
