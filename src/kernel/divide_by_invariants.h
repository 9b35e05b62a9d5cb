#pragma once

#include "kernel/kernel_function.h"

namespace weft {

/// Replaces divisions of float vectors (16 or 32 bits) by a scalar from outside of their loop with
/// products: the reciprocal r = 1/b is taken once, before the loop, and each quotient is corrected
/// (Markstein, "Computation of elementary functions on the IBM RISC System/6000", 1990; Brisebarre,
/// Muller and Raina, "Accelerating correctly rounded floating-point division when the divisor is
/// known in advance", 2004):
///     q = a * r;  d = fma(q, b, -a);  c = fma(d, -r, q);  a/b = c is NaN ? q : c
/// Zeros (with their signs), infinities, overflow and NaN come out as a division makes them, and so
/// does every quotient of |a| >= 2^-100, rounded correctly; below that d may have lost bits and the
/// quotient is within 2 units in its last place. It holds for 2^-100 <= b <= 2^100: a loop whose
/// divisor is outside (or NaN) at run time goes on dividing, in a copy of its own.
///
/// With --fast-math, the quotient is q: at most 1.5 units in the last place off for divisors and
/// quotients from 2^-126 to 2^126; a divisor that is smaller counts as zero.
///
/// Requires: a verified kernel of a CPU with fused multiply-adds. Establishes the same; a kernel
/// without such divisions is unchanged. Returns how many divisions it replaced.
///     for j { y[j] = x[j] / s }  ->  if 2^-100 <= s <= 2^100 { for j { … } } else { for j { … } }
int divide_by_invariants(KernelFunction& kernel, bool fast_math = false);

}  // namespace weft
