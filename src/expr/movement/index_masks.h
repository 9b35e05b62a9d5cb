#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Reads of constant masks that hold on a band along two of their axes, or out of one, become
/// comparisons of the indices:
///     keep[d2, d3]   ->   d3 <= d2            of the lower triangle
///                         d2 - 31 <= d3 && d3 <= d2
/// Masks of two numbers, which are added, become a choice of them: d3 <= d2 ? 0 : -inf.
/// Comparisons of constant integers that count along an axis do, too: column[d3] <= row[d2].
/// Conditions on indices alone, and numbers chosen by them, go into what reads them. So masks take
/// no memory, and loops can go as far as they let them.
///
/// Requires: a verified program without layouts; fold_movement ran. Returns whether anything
/// changed.
bool index_masks(TensorProgram& program);

}  // namespace weft
