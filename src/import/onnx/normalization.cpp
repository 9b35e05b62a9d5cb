#include <numeric>

#include "import/builder/normalization.h"
#include "import/builder/precision.h"
#include "import/onnx/translator.h"

namespace weft::onnx {
namespace {

std::vector<int64_t> axes_from(int64_t first, int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank - first));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

/// The type of the statistics: stash_type where that is wider than the input's type.
DType stash_type(OpContext& n, DType input) {
  DType stash = n.dtype_attr("stash_type", DType::kF32);
  n.require(is_float(stash), "stash_type must be a floating-point type");
  return byte_size(stash) > byte_size(input) ? stash : working_type(input);
}

/// A parameter vector of BatchNormalization: [C] (or, without `spatial`, one value per element).
ValueId batch_parameter(OpContext& n, int index, DType type) {
  GraphBuilder& b = n.b;
  ValueId v = b.convert(n.input(index), type);
  if (b.rank(v) != 1) return b.unsqueeze(v, {0});
  int64_t rank = b.rank(n.input(0));
  n.require(rank >= 1, "the input must have an axis");
  return rank == 1 ? b.unsqueeze(v, {0}) : per_channel(b, v, rank);
}

/// y = x * a + c with a = scale / sqrt(var + epsilon) and c = bias - mean * a, which fold into two
/// constant vectors.
ValueId normalise_batch(OpContext& n, ValueId x, ValueId mean, ValueId variance) {
  GraphBuilder& b = n.b;
  double epsilon = n.float_attr("epsilon", 1e-5f);
  ValueId scale = batch_parameter(n, 1, b.dtype(x)), bias = batch_parameter(n, 2, b.dtype(x));
  ValueId factor = b.div(scale, b.sqrt(b.add(variance, epsilon)));
  return b.add(b.mul(x, factor), b.sub(bias, b.mul(mean, factor)));
}

/// Statistics of the batch itself, and the running ones moved towards them.
void translate_training_batch_normalization(OpContext& n, ValueId x) {
  GraphBuilder& b = n.b;
  n.require(b.rank(x) >= 2, "the input must have a channel axis");
  std::vector<int64_t> axes = axes_from(1, b.rank(x));
  axes[0] = 0;
  Moments moments(b, x, axes);
  ValueId y = normalise_batch(n, x, moments.mean, moments.variance);
  n.set_output(0, b.convert(y, b.dtype(n.input(0))));
  double momentum = n.float_attr("momentum", 0.9f);
  const auto moved = [&](int index, ValueId current) {
    ValueId old = b.mul(batch_parameter(n, index, b.dtype(x)), momentum);
    ValueId updated = b.add(old, b.mul(current, 1.0 - momentum));
    return b.convert(b.reshape(updated, {b.size(updated)}), b.dtype(n.input(index)));
  };
  n.set_output(1, moved(3, moments.mean));
  n.set_output(2, moved(4, moments.variance));
}

void translate_batch_normalization(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = widen(b, n.input(0));
  if (n.bool_attr("training_mode", false)) return translate_training_batch_normalization(n, x);
  ValueId mean = batch_parameter(n, 3, b.dtype(x)), variance = batch_parameter(n, 4, b.dtype(x));
  n.set_output(0, b.convert(normalise_batch(n, x, mean, variance), b.dtype(n.input(0))));
  if (n.opset() >= 14) return;
  for (int i = 1; i < n.output_count(); ++i) {
    if (n.wants_output(i)) n.unsupported("outputs of BatchNormalization's training form");
  }
}

/// Scale and bias of trailing axes applied to a normalised value, in the working type.
ValueId scale_and_shift(OpContext& n, ValueId y, int scale, int bias) {
  GraphBuilder& b = n.b;
  y = b.mul(y, b.broadcast_to(b.convert(n.input(scale), b.dtype(y)), b.shape(y)));
  if (!n.has_input(bias)) return y;
  return b.add(y, b.broadcast_to(b.convert(n.input(bias), b.dtype(y)), b.shape(y)));
}

void translate_layer_normalization(OpContext& n) {
  GraphBuilder& b = n.b;
  DType type = b.dtype(n.input(0));
  ValueId x = b.convert(n.input(0), stash_type(n, type));
  int64_t axis = n.axis_attr("axis", -1, b.rank(x));
  Moments moments(b, x, axes_from(axis, b.rank(x)));
  ValueId inverse = inverse_deviation(b, moments.variance, n.float_attr("epsilon", 1e-5f));
  ValueId y = b.mul(moments.centred, inverse);
  n.set_output(0, b.convert(scale_and_shift(n, y, 1, 2), type));
  DType stash = n.dtype_attr("stash_type", DType::kF32);
  if (n.wants_output(1)) n.set_output(1, b.convert(moments.mean, stash));
  if (n.wants_output(2)) n.set_output(2, b.convert(inverse, stash));
}

void translate_rms_normalization(OpContext& n) {
  GraphBuilder& b = n.b;
  DType type = b.dtype(n.input(0));
  ValueId x = b.convert(n.input(0), stash_type(n, type));
  int64_t axis = n.axis_attr("axis", -1, b.rank(x));
  ValueId y =
      over_root_mean_square(b, x, axes_from(axis, b.rank(x)), n.float_attr("epsilon", 1e-5f));
  n.set_output(0, b.convert(scale_and_shift(n, y, 1, 2), b.dtype(n.input(1))));
}

void translate_instance_normalization(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = widen(b, n.input(0));
  int64_t rank = b.rank(x);
  n.require(rank >= 2, "the input must have a channel axis");
  Moments moments(b, x, axes_from(2, rank));
  ValueId inverse = inverse_deviation(b, moments.variance, n.float_attr("epsilon", 1e-5f));
  ValueId scale = per_channel(b, b.convert(n.input(1), b.dtype(x)), rank);
  ValueId bias = per_channel(b, b.convert(n.input(2), b.dtype(x)), rank);
  ValueId y = b.add(b.mul(b.mul(moments.centred, inverse), scale), bias);
  n.set_output(0, b.convert(y, b.dtype(n.input(0))));
}

/// [N, C, ...] as [N, groups, C / groups, ...], normalised over all but the first two axes. Scale
/// and bias have one value per group until opset 20, one per channel from 21 on.
void translate_group_normalization(OpContext& n) {
  GraphBuilder& b = n.b;
  DType type = b.dtype(n.input(0));
  DType stash = n.opset() >= 21 ? stash_type(n, type) : working_type(type);
  ValueId x = b.convert(n.input(0), stash);
  Shape shape = b.shape(x);
  n.require(shape.size() >= 2, "the input must have a channel axis");
  int64_t groups = n.int_attr("num_groups");
  n.require(groups >= 1 && shape[1] % groups == 0, "num_groups does not divide the channels");
  Shape grouped = {shape[0], groups, shape[1] / groups};
  grouped.insert(grouped.end(), shape.begin() + 2, shape.end());
  x = b.reshape(x, grouped);
  Moments moments(b, x, axes_from(2, b.rank(x)));
  ValueId inverse = inverse_deviation(b, moments.variance, n.float_attr("epsilon", 1e-5f));
  Shape parameter(grouped.size(), 1);
  parameter[1] = groups;
  if (n.opset() >= 21) parameter[2] = shape[1] / groups;
  const auto shaped = [&](int i) { return b.reshape(b.convert(n.input(i), stash), parameter); };
  ValueId y = b.mul(b.mul(moments.centred, inverse), shaped(1));
  n.set_output(0, b.convert(b.reshape(b.add(y, shaped(2)), shape), type));
}

/// A row whose norm is 0 stays 0.
void translate_lp_normalization(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = widen(b, n.input(0));
  int64_t axis = n.axis_attr("axis", -1, b.rank(x)), p = n.int_attr("p", 2);
  n.require(p == 1 || p == 2, "p must be 1 or 2");
  ValueId size = p == 1 ? b.unary(ScalarOp::kAbs, x) : b.mul(x, x);
  ValueId norm = b.reduce(Combiner::kSum, size, {axis}, true);
  if (p == 2) norm = b.sqrt(norm);
  ValueId zero = b.scalar(b.dtype(x), 0);
  ValueId y = b.select(b.binary(ScalarOp::kEq, norm, zero), zero, b.div(x, norm));
  n.set_output(0, b.convert(y, b.dtype(n.input(0))));
}

/// x / (bias + alpha / size * (squares of the `size` channels around it))^beta
void translate_lrn(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = widen(b, n.input(0));
  size_t rank = b.shape(x).size();
  n.require(rank >= 2, "the input must have a channel axis");
  int64_t size = n.int_attr("size");
  n.require(size >= 1 && size < (int64_t{1} << 31), "size is out of range");
  WindowAttrs attrs;
  attrs.window.assign(rank, 1);
  attrs.strides.assign(rank, 1);
  attrs.dilations.assign(rank, 1);
  attrs.low.assign(rank, 0);
  attrs.high.assign(rank, 0);
  attrs.window[1] = size;
  attrs.low[1] = (size - 1) / 2;
  attrs.high[1] = size / 2;
  attrs.combiner = Combiner::kSum;
  ValueId squares = b.reduce_window(b.mul(x, x), attrs);
  double alpha = n.float_attr("alpha", 1e-4f);
  ValueId base = b.mul(squares, alpha / static_cast<double>(size));
  base = b.add(base, double{n.float_attr("bias", 1.0f)});
  ValueId divisor = b.binary(ScalarOp::kPow, base, double{n.float_attr("beta", 0.75f)});
  n.set_output(0, b.convert(b.div(x, divisor), b.dtype(n.input(0))));
}

void translate_mean_variance_normalization(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = widen(b, n.input(0));
  Moments moments(b, x, n.ints_attr("axes", {0, 2, 3}));
  ValueId y = b.div(moments.centred, b.add(b.sqrt(moments.variance), 1e-9));
  n.set_output(0, b.convert(y, b.dtype(n.input(0))));
}

/// Layer (or RMS) normalisation of input + skip + bias; output 3 is that sum.
void translate_skip_normalization(OpContext& n, bool centres) {
  GraphBuilder& b = n.b;
  DType type = b.dtype(n.input(0));
  int bias = centres ? 4 : 3;
  ValueId skip = b.broadcast_to(widen(b, n.input(1)), b.shape(n.input(0)));
  ValueId x = b.add(widen(b, n.input(0)), skip);
  if (n.has_input(bias)) x = b.add(x, widen(b, n.input(bias)));
  std::vector<int64_t> axes = {b.rank(x) - 1};
  double epsilon = n.float_attr("epsilon", 1e-5f);
  ValueId y = kNoValue;
  if (centres) {
    Moments moments(b, x, axes);
    y = b.mul(moments.centred, inverse_deviation(b, moments.variance, epsilon));
    y = scale_and_shift(n, y, 2, 3);
  } else {
    y = over_root_mean_square(b, x, axes, epsilon);
    y = b.mul(y, widen(b, n.input(2)));
  }
  n.set_output(0, b.convert(y, type));
  if (n.wants_output(1) || n.wants_output(2)) n.unsupported("the statistics as outputs");
  n.set_output(3, b.convert(x, type));
}

void translate_skip_layer_normalization(OpContext& n) { translate_skip_normalization(n, true); }
void translate_skip_rms_normalization(OpContext& n) { translate_skip_normalization(n, false); }

const Translator kRows[] = {
    {"", "BatchNormalization", 7, translate_batch_normalization},
    {"", "GroupNormalization", 18, translate_group_normalization},
    {"", "InstanceNormalization", 6, translate_instance_normalization},
    {"", "LRN", 1, translate_lrn},
    // Since opset 17; onnxruntime's optimiser writes it into models of any.
    {"", "LayerNormalization", 1, translate_layer_normalization},
    {"", "LpNormalization", 1, translate_lp_normalization},
    {"", "MeanVarianceNormalization", 9, translate_mean_variance_normalization},
    {"", "RMSNormalization", 23, translate_rms_normalization},
    // Written by onnxruntime's optimiser into the default domain.
    {"", "SimplifiedLayerNormalization", 1, translate_rms_normalization},
    {"com.microsoft", "SkipLayerNormalization", 1, translate_skip_layer_normalization},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, translate_skip_rms_normalization},
};

}  // namespace

TranslatorTable normalization_translators() { return kRows; }

}  // namespace weft::onnx
