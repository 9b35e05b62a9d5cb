#include <numeric>

#include "import/builder/activation.h"
#include "import/builder/numpy_matmul.h"
#include "import/builder/quantize.h"
#include "import/builder/softmax.h"
#include "import/onnx/contraction.h"
#include "import/onnx/windows.h"

namespace weft::onnx {
namespace {

// What onnxruntime's quantiser writes for operators that it computes on integers: each dequantises,
// computes in float32 and quantises again. A tensor is three inputs: values, scale, zero point.

ValueId one_value(OpContext& n, int i) {
  n.require(n.b.size(n.input(i)) == 1, "a scale or zero point must be one value");
  return n.b.reshape(n.input(i), {});
}

/// The tensor whose values, scale and zero point are inputs i, i + 1 and i + 2, as float32.
ValueId dequantized(OpContext& n, int i) {
  GraphBuilder& b = n.b;
  ValueId zero_point = n.has_input(i + 2) ? one_value(n, i + 2) : kNoValue;
  ValueId v = b.convert(without_zero_point(b, n.input(i), zero_point), DType::kF32);
  return b.mul(v, one_value(n, i + 1));
}

/// y by the scale and zero point of inputs i and i + 1, as output 0.
void set_quantized(OpContext& n, ValueId y, int i, DType type) {
  ValueId zero_point = n.has_input(i + 1) ? one_value(n, i + 1) : kNoValue;
  if (zero_point != kNoValue) type = n.b.dtype(zero_point);
  n.set_output(0, round_to_integer(n.b, n.b.div(y, one_value(n, i)), zero_point, type));
}

void translate_binary(OpContext& n, ScalarOp op) {
  set_quantized(n, n.b.binary(op, dequantized(n, 0), dequantized(n, 3)), 6, n.b.dtype(n.input(0)));
}
void translate_add(OpContext& n) { translate_binary(n, ScalarOp::kAdd); }
void translate_mul(OpContext& n) { translate_binary(n, ScalarOp::kMul); }

void translate_sigmoid(OpContext& n) {
  ValueId y = n.b.unary(ScalarOp::kSigmoid, dequantized(n, 0));
  set_quantized(n, y, 3, n.b.dtype(n.input(0)));
}

void translate_leaky_relu(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = dequantized(n, 0);
  ValueId y = leaky_relu(b, x, n.float_attr("alpha", 0.01f));
  set_quantized(n, y, 3, b.dtype(n.input(0)));
}

void translate_softmax(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = dequantized(n, 0);
  const int64_t axis = n.axis_attr("axis", -1, b.rank(x));
  std::vector<int64_t> axes = {axis};
  if (n.int_attr("opset") < 13) {
    axes.resize(static_cast<size_t>(b.rank(x) - axis));
    std::iota(axes.begin(), axes.end(), axis);
  }
  set_quantized(n, softmax(b, x, axes), 3, b.dtype(n.input(0)));
}

/// Calls `pool` with the channels as the second axis, wherever the operator has them.
template <typename Pool>
void translate_pool(OpContext& n, const Pool& pool) {
  GraphBuilder& b = n.b;
  ValueId x = dequantized(n, 0);
  const int64_t rank = b.rank(x);
  n.require(rank >= 3, "the input must have a spatial axis");
  std::vector<int64_t> first(static_cast<size_t>(rank)), last(static_cast<size_t>(rank));
  std::iota(first.begin(), first.end(), -1);
  std::iota(last.begin(), last.end(), 1);
  first[0] = last[0] = 0;
  first[1] = rank - 1;
  last.back() = 1;
  const bool channels_last = n.bool_attr("channels_last", false);
  ValueId y = pool(channels_last ? b.transpose(x, first) : x);
  set_quantized(n, channels_last ? b.transpose(y, last) : y, 3, b.dtype(n.input(0)));
}

void translate_average_pool(OpContext& n) {
  translate_pool(n, [&](ValueId x) { return average_pool(n, x); });
}

void translate_global_average_pool(OpContext& n) {
  translate_pool(n, [&](ValueId x) {
    std::vector<int64_t> axes(static_cast<size_t>(n.b.rank(x) - 2));
    std::iota(axes.begin(), axes.end(), 2);
    return n.b.reduce_mean(x, axes, true);
  });
}

/// Inputs: the result's scale and zero point, then three for each part.
void translate_concat(OpContext& n) {
  n.require(n.input_count() >= 5 && (n.input_count() - 2) % 3 == 0,
            "each part needs values, a scale and a zero point");
  std::vector<ValueId> parts;
  for (int i = 2; i < n.input_count(); i += 3) parts.push_back(dequantized(n, i));
  const int64_t axis = n.axis_attr("axis", 0, n.b.rank(parts[0]));
  set_quantized(n, n.b.concat(parts, axis), 0, n.b.dtype(n.input(2)));
}

void translate_where(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = dequantized(n, 1), y = dequantized(n, 4);
  Shape shape = GraphBuilder::broadcast_shape(b.shape(x), b.shape(y));
  shape = GraphBuilder::broadcast_shape(shape, b.shape(n.input(0)));
  ValueId chosen = b.select(b.broadcast_to(n.input(0), shape), b.broadcast_to(x, shape),
                            b.broadcast_to(y, shape));
  set_quantized(n, chosen, 7, b.dtype(n.input(1)));
}

/// One value, or one for each column of a product.
ValueId column_values(GraphBuilder& b, ValueId v) {
  return v == kNoValue || b.size(v) != 1 ? v : b.reshape(v, {});
}

/// alpha * A' * B' + C, whose bias C is in steps of the product; float32 without a scale for it.
void translate_gemm(OpContext& n) {
  GraphBuilder& b = n.b;
  n.require(b.rank(n.input(0)) == 2 && b.rank(n.input(3)) == 2, "A and B must be matrices");
  const bool across = n.bool_attr("transB", false);
  const auto weight_parameter = [&](int i) {
    if (!n.has_input(i) || b.size(n.input(i)) == 1) {
      return n.has_input(i) ? b.reshape(n.input(i), {}) : kNoValue;
    }
    return across ? b.unsqueeze(n.input(i), {1}) : n.input(i);
  };
  ValueId x = without_zero_point(b, n.input(0), n.has_input(2) ? one_value(n, 2) : kNoValue);
  ValueId y = without_zero_point(b, n.input(3), weight_parameter(5));
  DotAttrs attrs;
  attrs.lhs_contract = {n.bool_attr("transA", false) ? 0 : 1};
  attrs.rhs_contract = {across ? 1 : 0};
  ValueId sum = b.dot_general(x, y, attrs, DType::kI32);
  if (n.has_input(6)) {
    sum = b.add(sum, b.broadcast_to(b.convert(n.input(6), DType::kI32), b.shape(sum)));
  }
  ValueId scale = b.mul(one_value(n, 1), column_values(b, n.input(4)));
  const double alpha = n.float_attr("alpha", 1.0f);
  if (alpha != 1.0) scale = b.mul(scale, alpha);
  ValueId result = b.mul(b.convert(sum, DType::kF32), scale);
  if (!n.has_input(7)) return n.set_output(0, result);
  set_quantized(n, result, 7, b.dtype(n.input(0)));
}

/// product (int32) * x_scale * y_scale + bias
void finish_product(OpContext& n, ValueId product, ValueId x_scale, ValueId y_scale, int bias) {
  GraphBuilder& b = n.b;
  ValueId scale = b.mul(x_scale, column_values(b, y_scale));
  ValueId y = b.mul(b.convert(product, DType::kF32), scale);
  if (n.has_input(bias)) y = b.add(y, n.input(bias));
  n.set_output(0, y);
}

void translate_matmul_integer_to_float(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = without_zero_point(b, n.input(0), n.has_input(4) ? one_value(n, 4) : kNoValue);
  ValueId y = without_zero_point(b, n.input(1), column_values(b, n.optional_input(5)));
  finish_product(n, numpy_matmul(b, x, y, DType::kI32), one_value(n, 2), n.input(3), 6);
}

void translate_dynamic_quantize_matmul(OpContext& n) {
  GraphBuilder& b = n.b;
  n.require(b.dtype(n.input(0)) == DType::kF32, "A must be float32");
  const DynamicQuantization q = quantize_dynamically(b, n.input(0));
  ValueId x = without_zero_point(b, q.values, q.zero_point);
  ValueId y = without_zero_point(b, n.input(1), column_values(b, n.optional_input(3)));
  finish_product(n, numpy_matmul(b, x, y, DType::kI32), q.scale, n.input(2), 4);
}

const Translator kRows[] = {
    {"com.microsoft", "DynamicQuantizeMatMul", 1, translate_dynamic_quantize_matmul},
    {"com.microsoft", "MatMulIntegerToFloat", 1, translate_matmul_integer_to_float},
    {"com.microsoft", "QGemm", 1, translate_gemm},
    {"com.microsoft", "QLinearAdd", 1, translate_add},
    {"com.microsoft", "QLinearAveragePool", 1, translate_average_pool},
    {"com.microsoft", "QLinearConcat", 1, translate_concat},
    {"com.microsoft", "QLinearGlobalAveragePool", 1, translate_global_average_pool},
    {"com.microsoft", "QLinearLeakyRelu", 1, translate_leaky_relu},
    {"com.microsoft", "QLinearMul", 1, translate_mul},
    {"com.microsoft", "QLinearSigmoid", 1, translate_sigmoid},
    {"com.microsoft", "QLinearSoftmax", 1, translate_softmax},
    {"com.microsoft", "QLinearWhere", 1, translate_where},
};

}  // namespace

TranslatorTable quantized_operator_translators() { return kRows; }

}  // namespace weft::onnx
