#pragma once

#include <set>

#include "kernel/kernel_function.h"

namespace weft::lowering {

/// Inserts barriers of the block where a thread reads shared memory that another may have written,
/// or writes what another may still read, since the last one; buffers that share bytes of the arena
/// are one. One barrier clears all that is pending, and each stands as late as it may, but before a
/// loop that only its first iteration needs it for. What an asynchronous copy writes counts as
/// written once it has been waited for.
///     store s; load s            ->  store s; barrier; load s
///     for { store s; load s }    ->  for { barrier; store s; barrier; load s }
///
/// Of the buffers in `rotating`, a loop's iteration writes a part that the one before does not
/// read.
///
/// Requires: shared memory is not read and written again under one condition or in one loop that
/// only some threads of a block enter.
void insert_block_barriers(KernelFunction& kernel, const std::set<int32_t>& rotating);

}  // namespace weft::lowering
