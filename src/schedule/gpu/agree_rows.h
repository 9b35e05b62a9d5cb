#pragma once

#include <cstdint>
#include <vector>

#include "choice/choice.h"
#include "group/group_space.h"

namespace weft {

/// A kernel that is cut into rows.
struct RowsOf {
  const GroupSpace& space;
  const RowsChoice& choice;
};

/// Two kernels cut so that a block has the same box of a tensor in both.
struct AgreeingRows {
  RowsChoice first, second;
};

/// Ways to cut two kernels of one launch that load or store `tensor` alike, on `blocks` blocks at
/// most: what a block has of it stays there (Souffle §6.5).
///     s[c] = sum[p] x[c,p] by rows free [0] row [1] …,  y[c,p] = x[c,p]*g[c] by the same
/// The second as the first, then the first as the second. Axes are the same by how far apart the
/// tensor's elements lie along them. Rows are held in registers while a block has them, and lie on
/// all of its `warps`, since others would ask memory for the same. Parts of rows become longer, or
/// a block has more rows, where there are more of them than blocks. None where an axis of either is
/// none of the tensor's, or where a thread would hold too much.
struct BlocksOfLaunch {
  int64_t blocks = 1;  ///< at most
  int64_t warps = 1;
};
std::vector<AgreeingRows> agreeing_rows(const RowsOf& first, const RowsOf& second, TensorId tensor,
                                        const BlocksOfLaunch& launch);

}  // namespace weft
