#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// Makes a box the one at hand.
void begin_evaluation(KernelWriter& w, const Box& box);

/// The coordinates along the axes whose bits are set, as one number.
uint64_t project(const Point& point, uint64_t mask);

/// Bit a: the value depends on axis a of the box.
uint64_t box_mask(KernelWriter& w, const ScalarRef& s);

/// The value of an expression at a point of the box at hand, once per point that it depends on.
/// `guard`: the lanes whose value is used (kNoReg: all); others must not be loaded for.
Reg evaluate(KernelWriter& w, const ScalarRef& s, const Point& point, Reg guard);

/// Whether a condition holds at a point in all threads and lanes, or in none.
std::optional<bool> decide(KernelWriter& w, const ScalarRef& c, const Point& point);

}  // namespace weft::lowering
