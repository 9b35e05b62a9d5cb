#include "graph/type_inference.h"

namespace weft {

TypeInference::Types TypeInference::elementwise() const {
  const ScalarOp scalar = std::get<ElementwiseAttrs>(attrs).op;
  WEFT_RETURN_IF_ERROR(expect_operands(static_cast<size_t>(scalar_op_arity(scalar))));
  for (const TensorType& type : operands) {
    if (type.shape != shape(0)) return fail("the operands' shapes differ");
  }
  const bool is_select = scalar == ScalarOp::kSelect;
  if (is_select && operand(0).dtype != DType::kBool) return fail("the condition must be bool");
  const size_t first = is_select ? 1 : 0;
  const DType type = operand(first).dtype;
  for (size_t i = first; i < operands.size(); ++i) {
    if (operand(i).dtype != type) return fail("the operands' types differ");
  }
  if (!scalar_op_accepts(scalar, type)) {
    return fail("is not defined on " + std::string(dtype_name(type)));
  }
  DType result = type;
  if (scalar == ScalarOp::kConvert || scalar == ScalarOp::kBitcast) {
    result = hint.dtype;
  } else if (scalar_op_is_predicate(scalar)) {
    result = DType::kBool;
  }
  if (scalar == ScalarOp::kBitcast &&
      (byte_size(result) != byte_size(type) || result == DType::kBool)) {
    return fail("cannot become " + std::string(dtype_name(result)));
  }
  return std::vector<TensorType>{{result, shape(0)}};
}

TypeInference::Types TypeInference::iota() const {
  WEFT_RETURN_IF_ERROR(expect_operands(0));
  const int64_t axis = std::get<IotaAttrs>(attrs).axis;
  if (axis < 0 || axis >= static_cast<int64_t>(hint.shape.size())) {
    return fail("axis " + std::to_string(axis) + " is not one of " + print(hint));
  }
  if (hint.dtype == DType::kBool) return fail("has no bool form");
  return std::vector<TensorType>{hint};
}

}  // namespace weft
