#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// A nest of a phase and where it stands in the program's body.
struct Nest {
  const TileNode* node = nullptr;
  std::vector<int32_t> path;
};

/// Nests of a phase are those between two barriers, at the top and in a recurrence.
std::vector<std::vector<Nest>> phases(const KernelWriter& w);

/// Items of the dimensions [dim, end) of a loop and of the loops of the grid inside it.
int64_t grid_items_below(const KernelWriter& w, const TileLoop& loop, size_t dim);

/// Items of a nest: 1 where it is no loop of the grid.
int64_t grid_items(const KernelWriter& w, const TileNode& nest);

}  // namespace weft::lowering
