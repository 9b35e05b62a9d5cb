#include <limits>

#include "import/builder/normalization.h"
#include "import/builder/numpy_matmul.h"
#include "import/builder/precision.h"
#include "import/builder/quantize.h"
#include "import/onnx/contraction.h"
#include "import/onnx/convolution.h"
#include "import/onnx/graph_importer.h"
#include "import/onnx/low_bit_numbers.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

/// A scale or zero point so that it broadcasts over x: a scalar, one value per slice of `axis`, or
/// (block_size > 0) one per block of slices.
///     f32[3], axis 1, x [2,3,5]                  ->   f32[1,3,1]
///     f32[2,2], axis 1, block_size 3, x [2,5]    ->   f32[2,5]: each value for 3, then 2 columns
ValueId spread(OpContext& n, ValueId v, ValueId x, int64_t axis, int64_t block_size) {
  GraphBuilder& b = n.b;
  if (block_size == 0) {
    if (b.size(v) == 1) return b.reshape(v, {});
    axis = GraphBuilder::normal_axis(axis, b.rank(x));
    n.require(b.rank(v) == 1 && b.extent(v, 0) == b.extent(x, axis),
              "a scale or zero point has neither one value nor one per slice of the axis");
    Shape shape(static_cast<size_t>(b.rank(x)), 1);
    shape[static_cast<size_t>(axis)] = b.size(v);
    return b.reshape(v, shape);
  }
  n.require(block_size > 0, "block_size must not be negative");
  axis = GraphBuilder::normal_axis(axis, b.rank(x));
  n.require(b.rank(v) == b.rank(x), "a blocked scale must have as many axes as the input");
  int64_t blocks = b.extent(v, axis), extent = b.extent(x, axis);
  n.require(blocks == extent / block_size + (extent % block_size != 0 ? 1 : 0),
            "block_size does not fit the blocks of the scale");
  v = repeated(b, v, axis, block_size, extent);
  n.require(b.shape(v) == b.shape(x), "the scale's blocks do not cover the input");
  return v;
}

void translate_quantize_linear(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0);
  int64_t axis = n.int_attr("axis", 1), block_size = n.int_attr("block_size", 0);
  DType type = n.dtype_attr("output_dtype", DType::kU8);
  ValueId zero_point = kNoValue;
  if (n.has_input(2)) {
    type = b.dtype(n.input(2));
    zero_point = spread(n, as_number(n, 2), x, axis, block_size);
  }
  ValueId scale = spread(n, n.input(1), x, axis, block_size);
  DType division = n.dtype_attr("precision", b.dtype(scale));
  n.require(is_float(division), "the scale must be a floating-point number");
  ValueId y = b.div(b.convert(x, division), b.convert(scale, division));
  y = b.convert(y, DType::kF32);
  const auto narrow = n.has_input(2) ? narrow_input(n, 2) : narrow_attr(n, "output_dtype");
  if (!narrow) return n.set_output(0, round_to_integer(b, y, zero_point, type));
  n.importer().set_narrow_output(0, *narrow);
  if (narrow->as_float != nullptr) {
    if (zero_point != kNoValue) y = b.add(y, zero_point);
    return n.set_output(0, encode_small_float(b, y, *narrow->as_float, small_float_rounding(n)));
  }
  n.set_output(
      0, round_to_range(b, y, zero_point, narrow->held_in(), static_cast<double>(narrow->lowest()),
                        static_cast<double>(narrow->highest())));
}

void translate_dequantize_linear(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = as_number(n, 0);
  int64_t axis = n.int_attr("axis", 1), block_size = n.int_attr("block_size", 0);
  ValueId scale = spread(n, n.input(1), x, axis, block_size);
  n.require(is_integer(b.dtype(n.input(0))) && is_float(b.dtype(scale)),
            "x must be integers and its scale a floating-point number");
  DType type = n.dtype_attr("output_dtype", b.dtype(scale));
  ValueId y = x;
  if (n.has_input(2)) {
    ValueId zero_point = as_number(n, 2);
    n.require(b.dtype(zero_point) == b.dtype(x), "x and its zero point must have one type");
    zero_point = spread(n, zero_point, x, axis, block_size);
    // Exact in 32 bits for all narrower integers.
    DType wide = byte_size(b.dtype(x)) < 4 ? DType::kI32 : DType::kF64;
    if (is_float(b.dtype(x))) wide = b.dtype(x);
    y = b.sub(b.convert(x, wide), b.convert(zero_point, wide));
  }
  DType product = b.dtype(scale) == DType::kF64 ? DType::kF64 : DType::kF32;
  y = b.mul(b.convert(y, product), b.convert(scale, product));
  n.set_output(0, b.convert(y, type));
}

void translate_dynamic_quantize_linear(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0);
  n.require(b.dtype(x) == DType::kF32, "x must be float32");
  const DynamicQuantization q = quantize_dynamically(b, x);
  n.set_output(0, q.values);
  n.set_output(1, q.scale);
  n.set_output(2, q.zero_point);
}

/// A parameter of a left factor (one value per row) or right factor (one per column).
ValueId row_parameter(GraphBuilder& b, ValueId v) {
  if (b.size(v) == 1) return b.reshape(v, {});
  return b.rank(v) == 1 ? b.unsqueeze(v, {1}) : v;
}
ValueId column_parameter(GraphBuilder& b, ValueId v) {
  return b.size(v) == 1 ? b.reshape(v, {}) : v;
}

ValueId optional_parameter(OpContext& n, int index, ValueId (*shape)(GraphBuilder&, ValueId)) {
  return n.has_input(index) ? shape(n.b, n.input(index)) : kNoValue;
}

void translate_matmul_integer(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = without_zero_point(b, n.input(0), optional_parameter(n, 2, row_parameter));
  ValueId y = without_zero_point(b, n.input(1), optional_parameter(n, 3, column_parameter));
  n.set_output(0, numpy_matmul(b, x, y, DType::kI32));
}

/// The product of two scales over that of the result, in their own type, as float32.
ValueId combined_scale(GraphBuilder& b, ValueId x, ValueId y, ValueId result) {
  DType type = b.dtype(result);
  ValueId scale = b.mul(b.convert(x, type), b.convert(y, type));
  return b.convert(b.div(scale, b.reshape(result, {})), DType::kF32);
}

void translate_qlinear_matmul(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = without_zero_point(b, n.input(0), optional_parameter(n, 2, row_parameter));
  ValueId y = without_zero_point(b, n.input(3), optional_parameter(n, 5, column_parameter));
  ValueId product = b.convert(numpy_matmul(b, x, y, DType::kI32), DType::kF32);
  n.require(b.size(n.input(6)) == 1, "y_scale must be one value");
  ValueId scale =
      combined_scale(b, row_parameter(b, n.input(1)), column_parameter(b, n.input(4)), n.input(6));
  ValueId zero_point = optional_parameter(n, 7, column_parameter);
  DType type = zero_point == kNoValue ? b.dtype(n.input(0)) : b.dtype(zero_point);
  n.set_output(0, round_to_integer(b, b.mul(product, scale), zero_point, type));
}

/// A parameter of convolution weights: one value, or one per output channel.
ValueId weight_parameter(GraphBuilder& b, ValueId v, int64_t rank) {
  if (v == kNoValue) return kNoValue;
  if (b.size(v) == 1) return b.reshape(v, {});
  Shape shape(static_cast<size_t>(rank), 1);
  shape[0] = b.size(v);
  return b.reshape(v, shape);
}

/// The int32 convolution of x and w without their zero points: padding then is a true zero.
ValueId integer_convolution(OpContext& n, ValueId x, ValueId x_zero, ValueId w, ValueId w_zero) {
  GraphBuilder& b = n.b;
  ConvolutionAttrs attrs = read_convolution(n, x, w);
  if (x_zero != kNoValue) {
    n.require(b.size(x_zero) == 1, "the input's zero point must be one value");
    x_zero = b.reshape(x_zero, {});
  }
  ValueId left = without_zero_point(b, x, x_zero);
  ValueId right = without_zero_point(b, w, weight_parameter(b, w_zero, b.rank(w)));
  return b.convolution(left, right, attrs, DType::kI32);
}

void translate_conv_integer(OpContext& n) {
  n.set_output(
      0, integer_convolution(n, n.input(0), n.optional_input(2), n.input(1), n.optional_input(3)));
}

void translate_qlinear_conv(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId y = integer_convolution(n, n.input(0), n.input(2), n.input(3), n.input(5));
  int64_t rank = b.rank(y);
  if (n.has_input(8)) {
    n.require(b.size(n.input(8)) == b.extent(y, 1), "the bias must have one value per channel");
    y = b.add(y, per_channel(b, b.convert(n.input(8), DType::kI32), rank));
  }
  n.require(b.size(n.input(1)) == 1 && b.size(n.input(6)) == 1,
            "the scales of x and y must be one value each");
  ValueId w_scale = n.input(4);
  w_scale = b.size(w_scale) == 1 ? b.reshape(w_scale, {}) : per_channel(b, w_scale, rank);
  ValueId scale = combined_scale(b, b.reshape(n.input(1), {}), w_scale, n.input(6));
  ValueId zero_point = optional_parameter(n, 7, column_parameter);
  DType type = zero_point == kNoValue ? b.dtype(n.input(0)) : b.dtype(zero_point);
  y = b.mul(b.convert(y, DType::kF32), scale);
  n.set_output(0, round_to_integer(b, y, zero_point, type));
}

const Translator kRows[] = {
    {"", "ConvInteger", 10, translate_conv_integer},
    {"", "DequantizeLinear", 10, translate_dequantize_linear},
    {"", "DynamicQuantizeLinear", 11, translate_dynamic_quantize_linear},
    {"", "MatMulInteger", 10, translate_matmul_integer},
    {"", "QLinearConv", 10, translate_qlinear_conv},
    {"", "QLinearMatMul", 10, translate_qlinear_matmul},
    {"", "QuantizeLinear", 10, translate_quantize_linear},
    {"com.microsoft", "DequantizeLinear", 1, translate_dequantize_linear},
    {"com.microsoft", "QuantizeLinear", 1, translate_quantize_linear},
};

}  // namespace

TranslatorTable quantization_translators() { return kRows; }

}  // namespace weft::onnx
