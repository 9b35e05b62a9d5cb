#pragma once

namespace weft {

/// Makes allocations beyond the memory of the machine, or of its control group, fail in this
/// process, which then says so, instead of letting the system end a process of its choice. Models
/// may be hostile: a size is a number in a file.
void limit_memory();

}  // namespace weft
