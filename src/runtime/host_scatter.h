#pragma once

#include "runtime/host_ops.h"

namespace weft {

/// Pieces of the updates that no two of write the same element. As many as the cache lines of a
/// slice, or rows along whose axis no index goes: 1 where neither is.
int64_t scatter_pieces(const HostStep& step, std::span<const HostOperand> in);

/// `part`'s pieces of the updates, in row-major order, into `result`, which holds the data.
void run_scatter(const HostStep& step, std::span<const HostOperand> in, const HostOperand& result,
                 HostPart part);

}  // namespace weft
