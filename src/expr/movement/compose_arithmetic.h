#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Beyond this nothing is computed again any more often.
inline constexpr double kMostRecompute = 1e6;

/// Vertical transformation (Souffle §6.2): an element-wise expression goes into its readers through
/// the maps of their reads, to a fixpoint.
///     r[i, j] = max(x[i, j], 0); s[i, j] = r[2 i, j]; y[j, i] = s[i, j] * w[j]
///       ->  y[i, j] = max(x[2 j, i], 0) * w[i]
/// Operations stay what they are, in the order and in the types in which they were, so that every
/// element keeps its bits (§6.2: arithmetic is preserved).
///
/// An expression is composed where all of its readers can take it, none of which is a contraction,
/// so that it is made nowhere else; where some reader reads it otherwise than element by element,
/// since groups hold what remains; where it is not made in the kernel of a reduction anyway; and
/// where its operations are done at most `recompute` times as often as before. 1 computes nothing
/// again, 0 composes nothing.
/// `parts`: products may become one for each part of their columns (expr/products/part_products.h),
/// whose kernel makes what is read of such parts, too.
///
/// Requires: fold_movement ran. Origins of what was composed are those of both.
bool compose_arithmetic(TensorProgram& program, double recompute, bool parts = false);

/// The same for what split_axes leaves: reads by floordiv and mod, whose reader keeps an axis whole
/// that is in parts where it is made. No kernel holds both, so that what follows from a reduction
/// is composed, too, unless it is as large as what that reduction makes: a normalisation by groups
/// of channels, between convolutions.
///     t[g, c] = (x[24 g + c] - m[g]) * s[g]; y[d] = t[d floordiv 24, d mod 24] * w[d]
///       ->  y[d] = (x[d] - m[d floordiv 24]) * s[d floordiv 24] * w[d]
bool compose_across_splits(TensorProgram& program, double recompute);

}  // namespace weft
