#pragma once

#include <vector>

#include "kernel/kernel_function.h"
#include "target/target.h"

namespace weft {

/// Makes stores non-temporal where a kernel writes more than its caches will keep: its tensors
/// together fill the last-level cache and the output itself a quarter of it. Such lines would be
/// read from memory before they are written, and be evicted before anybody reads them.
///
/// Only where the vectors that a block of the kernel stores fill whole cache lines, into outputs
/// that the kernel never reads. Requires: a verified kernel of a CPU.
/// Returns whether it changed.
bool stream_outputs(KernelFunction& kernel, const Target& target);
/// Whether an output of so many bytes is that large, where the tensors of a kernel have `all`.
bool is_streamed(int64_t output, int64_t all, const Target& target);
/// By buffer: whether it is an output that large; the kernel's instructions do not matter.
std::vector<bool> streamed_buffers(const KernelFunction& kernel, const Target& target);

}  // namespace weft
