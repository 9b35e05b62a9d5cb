#pragma once

#include <functional>

#include "expr/new_tensors.h"
#include "expr/tensor_program.h"

namespace weft {

/// Whether the factors of a contraction, both of which vary, can be laid out as the products of a
/// processor take them, and are worth it: the sum has one axis, the last of the left factor's
/// tensor; the right factor alone runs along the result's last axis, which is long enough for
/// vectors, and is read for many rows.
bool can_pack_factors(const TensorExpr& e, const Scalar& left, const ScalarRef& right);

/// What stands in the place of such a contraction's sum, over its output axes and two of a sum.
struct PackedFactors {
  std::vector<int64_t> reduce_extents;
  ScalarRef left, right;
};

/// Lays the factors out, `depth` steps of the sum side by side, in tensors of their own:
///     sum[64] x[d0, d1, r0] * k[d0, r0, d2]
///     k_packed[d0, d1, d2, d3] = k[d0, d1 * 4 + d3, d2]
///     sum[16, 4] x[d0, d1, r0 * 4 + r1] * k_packed[d0, r0, d2, r1]
/// A sum of another length is filled up with zeros, both factors then. `right` is what is laid out,
/// computed on the way; expressions are handed to `add`.
///
/// Requires: can_pack_factors.
PackedFactors pack_factors(const TensorExpr& e, const ScalarRef& left, const ScalarRef& right,
                           int64_t depth, const std::string& name, NewTensors& new_tensors,
                           const std::function<void(TensorExpr)>& add);

}  // namespace weft
