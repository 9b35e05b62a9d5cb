#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "support/dtype.h"

namespace weft {

/// Scalar operations, from scalar_ops.def: the vocabulary of Graph's elementwise nodes, of tensor
/// expressions, tile programs, kernel functions and the generators.
enum class ScalarOp : uint8_t {
#define WEFT_SCALAR_OP(id, name, arity, result) id,
#include "graph/scalar_ops.def"
#undef WEFT_SCALAR_OP
};

std::string_view scalar_op_name(ScalarOp op);
std::optional<ScalarOp> parse_scalar_op(std::string_view name);
int scalar_op_arity(ScalarOp op);
bool scalar_op_is_comparison(ScalarOp op);
/// Gives bool whatever it takes: the comparisons, is_nan, is_inf.
bool scalar_op_is_predicate(ScalarOp op);
/// Whether the operation is defined on operands of `type` (the branches of a select): arithmetic on
/// all but bool, elementary functions on floats, and/or/xor/not on bool and integers, shifts on
/// integers, comparisons and min/max on all.
bool scalar_op_accepts(ScalarOp op, DType type);

/// One scalar of any DType: floats as double (f32, f16, bf16 already rounded to their type), others
/// as int64 (u64 by bit pattern).
struct ScalarValue {
  DType type = DType::kF32;
  double f = 0;
  int64_t i = 0;
  friend bool operator==(const ScalarValue&, const ScalarValue&) = default;
};

ScalarValue float_value(DType type, double value);
ScalarValue int_value(DType type, int64_t value);
ScalarValue convert_value(const ScalarValue& value, DType to);
/// Whether all bits of the value are zero: no -0.
bool is_plain_zero(const ScalarValue& value);

/// The reference meaning of every scalar operation: f32 operations round to f32, f16/bf16 compute
/// in f32 and round. `result_type` is needed for kSelect, kConvert and kBitcast; for the others it
/// follows from the operands.
ScalarValue evaluate_scalar(ScalarOp op, std::span<const ScalarValue> operands, DType result_type);

/// How contributions join: reductions, scatters, windows. kArgMin/kArgMax pair a value with its
/// index (first on ties unless the node says last); NaN wins in min, max and their arg forms.
enum class Combiner : uint8_t { kSum, kProd, kMin, kMax, kAnd, kOr, kArgMin, kArgMax };
std::string_view combiner_name(Combiner c);
std::optional<Combiner> parse_combiner(std::string_view name);
bool combiner_is_arg(Combiner c);
/// The scalar operation that joins two values; nullopt for the arg forms.
std::optional<ScalarOp> combiner_op(Combiner c);
/// The value that leaves any other unchanged (-inf or the lowest integer for kMax, …). Not for the
/// arg forms.
ScalarValue combiner_identity(Combiner c, DType type);
ScalarValue combine(Combiner c, const ScalarValue& a, const ScalarValue& b);

}  // namespace weft
