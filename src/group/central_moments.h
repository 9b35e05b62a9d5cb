#pragma once

#include <vector>

#include "group/group_axes.h"

namespace weft {

/// Two sums of a group over the same axes: S = Σ x, and Σ (x - S/n)² of the same x with n terms.
/// Both can be had from one sweep over x, for parts of it that are put together by
///     Σ (x - μ)² = Σ_parts [ Σ (x - m)² + k (m - μ)² ],   m the mean of the k terms of a part
/// (Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample
/// variances, 1979), which loses no more digits than the two sweeps do.
struct CentralMoment {
  int sum = -1;  ///< positions in Group::exprs
  int second = -1;
};

/// The pairs of a group, found by what its expressions compute: values in between are written out,
/// a square is a product with itself or a power, a mean a quotient by n or a product with 1/n. Only
/// pairs that compute in the type that they accumulate in.
std::vector<CentralMoment> central_moments(const TensorProgram& program, const Group& group,
                                           const GroupAxes& axes);

/// The levels of a group whose pairs are each made in one sweep.
void join_sweeps(const TensorProgram& program, const Group& group,
                 const std::vector<CentralMoment>& moments, GroupAxes* axes);

}  // namespace weft
