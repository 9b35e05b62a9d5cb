#pragma once

#include <cstdint>
#include <optional>

#include "choice/choice.h"

namespace weft {

/// A block for each box of rows, which keeps nothing for the next; nothing where blocks go through
/// one each already.
std::optional<RowsChoice> rows_for_each_box(const RowsChoice& choice);

/// Rows on blocks of at most `warps` warps: fewer rows a block, and of a row that warps share more
/// elements for a thread. Of kernels in one launch the widest decides how many registers all of
/// them may use. Blocks that keep what their rows have in common no longer do. Nothing where they
/// have no more warps, where a thread would hold too much, or where blocks share what they load.
std::optional<RowsChoice> narrow_rows(const RowsChoice& choice, int64_t warps);

}  // namespace weft
