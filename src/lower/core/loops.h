#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// The nodes of a body in their order.
void emit_body(KernelWriter& w, const TileBody& body);

/// Number `child` of the body at hand.
void emit_node(KernelWriter& w, const TileNode& node, int32_t child);

/// Iterations of a loop whose carries have two buffers read one and write the other in turns.
void bind_carried_buffers(KernelWriter& w, const TileLoop& loop, const IndexExpr& iteration);

/// All iterations, from the first values of the carries in registers to their last.
std::vector<Reg> emit_iterations(KernelWriter& w, const TileLoop& loop, std::vector<Reg> carries);

/// Dimensions [dim, end) of a loop, from the carries' first values to their last.
std::vector<Reg> emit_seq_dim(KernelWriter& w, const TileLoop& loop, size_t dim,
                              std::vector<Reg> carries);

}  // namespace weft::lowering
