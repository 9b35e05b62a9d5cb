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
/// Of the buffers that blocks of a cluster read from each other, all of them are one thread: a
/// barrier of the cluster stands where one reads what another may have written, or writes what
/// others may still read, and at the end where others may still read what would go with the block.
///     store s; load_cluster s    ->  store s; barrier cluster; load_cluster s; barrier cluster
///
/// Of the buffers in `rotating`, a loop's iteration writes a part that the one before does not
/// read.
///
/// Requires: shared memory is not read and written again under one condition or in one loop that
/// only some threads of a block enter, nor by a cluster where only some of its blocks come.
void insert_block_barriers(KernelFunction& kernel, const std::set<int32_t>& rotating);

}  // namespace weft::lowering
