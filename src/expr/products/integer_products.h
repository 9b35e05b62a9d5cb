#pragma once

#include <optional>

#include "expr/tensor_program.h"

namespace weft {

/// Products of dequantised factors become products of integers. Where each factor of a sum is
/// (q - z) * s with q of 8 bits and z, s the same along the sum, and one of them is a constant w,
/// or read for enough rows to be laid out (expr/pack_factors):
///     sum_k (q[m,k] - z) * s * w[k,n] * t[n]   ->   p: i32 = sum_k i32(q[m,k]) * i32(w[k,n])
///                                                   f32(p[m,n] - z * columns[n]) * (s * t[n])
/// `columns` are sums of w, of a constant made here; a zero point of w takes sums of q's rows.
/// q becomes unsigned and w signed, by an offset of 128 that their zero points take, too.
/// What a predicate of padding leaves out has q = z. Sums of float32 that 32 bits might not hold
/// are sums of parts that they do, each dequantised; sums of int32 wrap as they did.
///
/// For processors that multiply bytes and add them up in 32 bits. The integer sum is exact; scales
/// are multiplied behind it, which is another association of the float32 roundings.
///
/// Right factors that vary are laid out in groups of `depth` steps of the sum, which the processor
/// multiplies and adds up at once.
///
/// Requires: a verified program without layouts. Returns whether anything changed; `in_parts` gets
/// what sums of parts make.
bool integer_products(TensorProgram& program, int64_t depth = 4,
                      std::vector<TensorId>* in_parts = nullptr);

/// The factors of a sum of products u8 * i8 or i16 * i8 in int32: `i32(a) * i32(b)`, where the left
/// one may stand in a select whose other branch is a constant of u8's range.
struct IntegerProduct {
  ScalarRef left;       ///< the read of u8 or i16
  ScalarRef right;      ///< the read of i8
  ScalarRef inside;     ///< null: always
  int64_t outside = 0;  ///< what the left factor is where `inside` does not hold

  bool in_words() const { return left->type == DType::kI16; }
};
/// Nothing where `product` is of another form.
std::optional<IntegerProduct> as_integer_product(const ScalarRef& product);

}  // namespace weft
