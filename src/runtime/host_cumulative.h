#pragma once

#include "runtime/host_ops.h"

namespace weft {

/// Pieces of a cumulative operation that do not wait for each other.
int64_t cumulative_pieces(const HostStep& step, const HostOperand& x);

/// `part`'s pieces of y = the running combinations of x along the axis. A floating-point sum or
/// product runs in double.
void run_cumulative(const HostStep& step, const HostOperand& x, const HostOperand& y,
                    HostPart part);

}  // namespace weft
