#pragma once

#include <optional>

#include "expr/tensor_program.h"

namespace weft {

/// Gives the program around a scan a constant for each of its body's, so that a kernel of the
/// program can hold the loop beside others and name what it reads:
///     h = scan h0, x (region (h, x), constant w)   ->   the same, beside a constant w that no step
///                                                       of the program reads
/// The values are shared, not copied. Works through nested regions.
///
/// Requires: a program whose expressions are final; other passes take unread constants away.
bool lend_constants(TensorProgram& program);

/// The constant of the program with the value, type and layout of one of a scan's body; nothing
/// where there is none.
std::optional<TensorId> lent_constant(const TensorProgram& program, const Tensor& of_body);

}  // namespace weft
