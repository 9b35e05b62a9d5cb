#pragma once

#include "kernel/kernel_function.h"
#include "target/target.h"

namespace weft {

/// Puts products that share a loaded factor behind each other where the factors that are loaded
/// once and needed again do not fit into the registers:
///     tap by tap                   value by value
///     s0 += x0*w0; s1 += x1*w0;    s0 += x0*w0;
///     s0 += x1*w1; s1 += x2*w1;    s1 += x1*w0; s0 += x1*w1;
///                                  s1 += x2*w1;
/// A window that slides over a row of sums needs each value in as many of them as it has taps. The
/// code generator loads it once, and by taps all of the row wait in registers for the next tap.
///
/// Each sum takes its products in the order that it had. Requires: a verified kernel of a CPU.
/// Returns whether it changed.
bool order_products(KernelFunction& kernel, const Target& target);

}  // namespace weft
