#pragma once

#include <optional>

#include "expr/tensor_program.h"

namespace weft {

/// The factors of a product of two reads that is made in float32: `f32(a) * f32(b)`, where one may
/// stand in a select whose other branch is 0, as padding does.
struct FloatProduct {
  ScalarRef reads[2];
  ScalarRef inside;        ///< null: always
  size_t padded_side = 0;  ///< of `inside`
};
/// Nothing where `product` is of another form.
std::optional<FloatProduct> as_float_product(const ScalarRef& product);
/// The same where both factors are of bfloat16.
std::optional<FloatProduct> as_bfloat_product(const ScalarRef& product);

/// The side of the one factor that is a constant, which no predicate leaves out.
std::optional<size_t> constant_factor(const TensorProgram& program, const FloatProduct& product);

/// The side of the constant in a contraction that a processor can make of pairs: a sum in float32
/// of products of a constant and another tensor, which run along an axis of the sum together, two
/// of its steps being multiplied and added in a lane, and the constant along columns of the result
/// alone. Nothing where the expression is another.
std::optional<size_t> constant_of_pairs(const TensorProgram& program, const TensorExpr& e);

/// Whether the expression is such a contraction of bfloat16.
bool sums_bfloat_pairs(const TensorProgram& program, const TensorExpr& e);

}  // namespace weft
