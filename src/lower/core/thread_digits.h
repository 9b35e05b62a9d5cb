#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// Lanes of a warp, or warps of a block.
int64_t level_size(const KernelWriter& w, PlaceLevel level);

/// Of the lane in its warp, or of the warp in its block.
Reg thread_number(KernelWriter& w, PlaceLevel level);

/// A digit of this thread's number.
Reg emit_digit(KernelWriter& w, const ThreadDigit& digit);

/// The kernel variable that stands for a digit in index expressions.
int thread_var(KernelWriter& w, const ThreadDigit& digit);

/// Of the threads that differ in these digits only, the first.
Reg is_first_copy(KernelWriter& w, const std::vector<ThreadDigit>& copies);

}  // namespace weft::lowering
