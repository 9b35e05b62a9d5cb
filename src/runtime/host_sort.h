#pragma once

#include "runtime/host_ops.h"

namespace weft {

/// Pieces of a sort or top_k of x that do not wait for each other: lines, or neighbouring ones.
int64_t sort_pieces(const HostStep& step, const HostOperand& x);

/// Bytes of scratch of a thread; -1 when they are no int64_t.
int64_t sort_scratch_bytes(const HostStep& step, const HostOperand& x);

/// `part`'s pieces of a sort, or of a top_k of step.k: the first of each line in order. NaN is
/// above every number, and ties go by index.
void run_sort(const HostStep& step, const HostOperand& x, const HostOperand& values,
              const HostOperand& indices, HostPart part, std::byte* scratch);

}  // namespace weft
