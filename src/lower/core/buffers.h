#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// The kernel's buffers for the program's parameters, in their order. `alignment`: in bytes, 0 for
/// that of an element.
void add_parameters(KernelWriter& w, int32_t alignment);

/// Memory of the values that live in it: workspaces of the grid, or scratch of a CPU's threads and
/// shared memory of a GPU's blocks.
Status add_own_buffers(KernelWriter& w, bool workspaces);

/// What views show lies in the buffers of parameters and workspaces. Requires: these.
void add_views(KernelWriter& w);

/// `next`: of a carry's next value, which may have a buffer of its own.
IndexExpr buffer_offset(const KernelWriter& w, TileSymbolId id,
                        const std::vector<IndexExpr>& indices, bool next = false);

/// Whether an element at a point of the box at hand, and its vector, lie in a buffer of known size.
bool lies_in_buffer(KernelWriter& w, int32_t buffer, const PreparedIndex& offset,
                    const Point& point);

/// Where an element of a symbol lies that is row-major at an offset.
Reg swizzled(KernelWriter& w, TileSymbolId symbol, const PointOffset& at);

/// Where an element of a symbol lies that is row-major at an offset.
Reg swizzled(KernelWriter& w, TileSymbolId symbol, Reg offset);

/// Whether matrix units take whole rows of the value from memory.
bool fills_matrix_rows(const KernelWriter& w, TileSymbolId symbol);

}  // namespace weft::lowering
