#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// Writes what a statement makes.
void emit_statement(KernelWriter& w, const TileStatement& statement);

/// Whether what a statement stores to is among what it reads.
bool reads_target(const TileStatement& statement);

/// One thread stores what several hold.
Reg store_mask(KernelWriter& w, Reg mask, const Box& box);

/// A value's registers, not yet made.
RegisterTile make_tile(KernelWriter& w, const TileRef& target, const Box& box);

/// One register copy to memory.
void store_element(KernelWriter& w, const TileRef& target, const PreparedIndex& offset,
                   const Box& box, const Point& point, Reg value, Reg mask);

/// The carry's first values; a carry of scratch scope is stored instead and yields none.
std::vector<Reg> initial_carry(KernelWriter& w, const TileCarry& carry);

}  // namespace weft::lowering
