#pragma once

#include <optional>

#include "expr/tensor_program.h"

/// How the factors of a contraction go along its axes in memory.
namespace weft {

/// A position as it changes from one channel of a group to the next: `v floordiv D` names the group
/// and stays, `v mod D` goes as `v` does.
IndexExpr inside_group(const IndexExpr& e);

/// Elements from one step to the next along each variable of an expression, in what a read of it
/// reads, inside groups of channels; nothing where a position is no sum of multiples, or data say
/// it.
///     x[n, r0 + f floordiv 32 * 32, h, w]   steps of 0 along f
std::optional<AffineForm> memory_steps(const TensorProgram& program, const TensorExpr& e,
                                       const Scalar& read);

/// Whether a position depends on a variable as it stands.
bool runs_along(const Scalar& read, int variable);

/// Whether an index of a read joins the variable of the result, which the other factor does not
/// have, and one of the sum: what is read slides along it, as an image under a window.
bool slides_along(const TensorExpr& e, const Scalar& read, const Scalar& other, int variable);
/// Along any variable of the result.
bool slides(const TensorExpr& e, const Scalar& read, const Scalar& other);

}  // namespace weft
