#pragma once

#include <vector>

#include "group/group_space.h"
#include "schedule/gpu/matrix_tile.h"
#include "tile/tile_program.h"

namespace weft {

/// One operand of a product, A[m,k] or B[k,n].
struct ProductOperand {
  ScalarRef factor;              ///< over the expression's own axes, in the units' type
  const Scalar* read = nullptr;  ///< the largest of its reads
  bool along_depth = false;      ///< its elements lie along the depth, else across it
  bool in_block = false;         ///< of a stage: it reads what the block keeps
  bool in_place = false;         ///< and is it, as units and cores read it
  /// Of a constant: the order of its dimensions in memory in which tiles of it are whole accesses.
  std::vector<int64_t> order;
};

/// Axes that one index of the tile program walks, outermost first.
struct FlatAxis {
  std::vector<int> axes;
  int64_t extent = 1;
  TileLoop::Dim dim;
};

/// A group as y[m,n] = sum[k] A[m,k] * B[k,n] with what follows on the result: every axis belongs
/// to the rows (A and the result have it), the columns (B and the result), the depth (A and B) or
/// the batch; axes of one kind that lie behind each other in the result are one index. Columns are
/// what the result has one element after another.
struct MatrixProduct {
  int root = -1;  ///< position of the product in the group
  ProductOperand left, right;
  std::vector<int> batch;
  FlatAxis rows, columns, depth;
  DType type = DType::kF16;  ///< of the operands
  bool on_units = true;      ///< else on plain cores
  MatrixProblem problem;     ///< for the choice of a tile
};

/// The product of a group on the target; `problem.whole` names what the reductions that follow the
/// product run over: exactly its rows, or exactly its columns. Errors (kUnsupported) say what the
/// group is instead.
/// Requires: the group reduces.
Result<MatrixProduct> find_product(const GroupSpace& space, const Target& target);

/// Its quickest tiles, at most so many. Error (kUnsupported): the target has none, or none that
/// holds what must be whole.
Result<std::vector<PricedTile>> tiles_of(const MatrixProduct& product, const Target& target,
                                         size_t most);

/// Whether the other members run on the elements of a product's tile, and on what is reduced of
/// them.
Decision follows_on_tile(const GroupSpace& space, const MatrixProduct& product);

/// Whether a product's tile holds what its group reduces behind the product: each such reduction
/// runs over all columns of the product's rows, or over all rows of its columns.
Decision reductions_behind_product(const GroupSpace& space, const Target& target);

}  // namespace weft
