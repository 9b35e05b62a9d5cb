#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// A variable for a register; its number.
IndexExpr add_kernel_var(KernelWriter& w, Reg reg, Interval range);

/// The expression with what is bound in place of tile variables.
IndexExpr bind(const KernelWriter& w, const IndexExpr& e);

/// What a tile or kernel variable can be here.
Interval range_of_var(const KernelWriter& w, int id);

/// An index with what is bound in its place, made ready for the points of a box.
PreparedIndex prepare(KernelWriter& w, const IndexExpr& e);

/// The affine form, products of kernel variables as kernel variables; false where there is none.
bool as_affine_of_products(KernelWriter& w, const IndexExpr& e, PreparedIndex* out);

/// The affine form without box variables, products of kernel variables as kernel variables.
bool affine_in_kernel_vars(KernelWriter& w, const IndexExpr& e, AffineForm* form);

/// Whether a kernel variable is an open size or a product of them.
bool is_invariant_size(const KernelWriter& w, int id);

/// The index at a register copy of the box at hand.
IndexExpr at_point(const KernelWriter& w, const PreparedIndex& index, const Point& point);

/// The same as an affine form; none where it is not affine.
std::optional<PointOffset> affine_at_point(KernelWriter& w, const PreparedIndex& index,
                                           const Point& point);

/// Elements from one lane to the next of an index, and what is left of it in the first lane; none
/// where the lane stands within something other than the sum.
std::optional<int64_t> lane_step(const IndexExpr& e, IndexExpr* first);

/// What a kernel variable or runtime index holds.
Reg kernel_var(KernelWriter& w, int id);

/// constant + sum of coefficients times variables.
Reg emit_terms(KernelWriter& w, const std::vector<std::pair<int, int64_t>>& terms,
               int64_t constant);

/// An expression over kernel variables and runtime indices.
Reg emit_index(KernelWriter& w, const IndexExpr& e);

}  // namespace weft::lowering
