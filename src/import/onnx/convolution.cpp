#include "import/onnx/convolution.h"

#include <algorithm>

#include "import/builder/normalization.h"
#include "import/builder/precision.h"

namespace weft::onnx {

ConvolutionAttrs read_convolution(OpContext& n, ValueId x, ValueId w) {
  GraphBuilder& b = n.b;
  Shape extents = spatial_extents(n, x);
  n.require(!extents.empty(), "a convolution needs a spatial axis");
  n.require(b.rank(w) == b.rank(x), "the weights must have as many axes as the input");
  Shape kernel(b.shape(w).begin() + 2, b.shape(w).end());
  n.require(n.ints_attr("kernel_shape", kernel) == kernel,
            "kernel_shape differs from the shape of the weights");
  int64_t groups = n.int_attr("group", 1);
  n.require(groups >= 1 && b.extent(w, 0) % groups == 0,
            "group does not divide the number of output channels");
  n.require(b.extent(x, 1) / groups == b.extent(w, 1) && b.extent(x, 1) % groups == 0,
            "the weights expect another number of input channels");
  Windows windows = read_windows(n, extents, kernel);
  ConvolutionAttrs attrs;
  attrs.strides = windows.strides;
  attrs.low = windows.low;
  attrs.high = windows.high;
  attrs.rhs_dilations = windows.dilations;
  attrs.lhs_dilations.assign(windows.rank(), 1);
  attrs.groups = groups;
  return attrs;
}

namespace {

/// y plus a bias per channel, where there is one.
ValueId add_bias(OpContext& n, ValueId y, ValueId bias) {
  GraphBuilder& b = n.b;
  if (bias == kNoValue) return y;
  n.require(b.size(bias) == b.extent(y, 1), "the bias must have one value per output channel");
  return b.add(y, per_channel(b, b.convert(bias, b.dtype(y)), b.rank(y)));
}

}  // namespace

ValueId convolve(OpContext& n, ValueId x, ValueId w, ValueId bias) {
  GraphBuilder& b = n.b;
  n.require(b.dtype(x) == b.dtype(w), "input and weights must have one type");
  ConvolutionAttrs attrs = read_convolution(n, x, w);
  return add_bias(n, b.convolution(x, w, attrs, working_type(b.dtype(x))), bias);
}

namespace {

void translate_conv(OpContext& n) {
  ValueId y = convolve(n, n.input(0), n.input(1), n.optional_input(2));
  n.set_output(0, n.b.convert(y, n.b.dtype(n.input(0))));
}

/// Padding of a transposed convolution, as the amounts cut from its full output.
struct Crop {
  std::vector<int64_t> low, high;
};

/// From pads, or from output_shape or auto_pad. `full` is the output extent without padding.
Crop read_crop(OpContext& n, const Shape& full, const Shape& extents,
               const std::vector<int64_t>& strides) {
  size_t rank = full.size();
  std::string auto_pad = n.string_attr("auto_pad", "NOTSET");
  bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  std::vector<int64_t> pads = spatial_attr(n, "pads", 2 * rank, 0, 0);
  Crop crop{{pads.begin(), pads.begin() + static_cast<int64_t>(rank)},
            {pads.begin() + static_cast<int64_t>(rank), pads.end()}};
  std::vector<int64_t> wanted = n.ints_attr("output_shape", {});
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (wanted.empty() && !same) return crop;
  n.require(wanted.empty() || wanted.size() == rank,
            "output_shape must have one extent per spatial axis");
  for (size_t i = 0; i < rank; ++i) {
    int64_t out = wanted.empty() ? extents[i] * strides[i] : wanted[i];
    n.require(out >= 0 && out < (int64_t{1} << 31), "output_shape is out of range");
    int64_t total = full[i] - out;
    int64_t half = total >= 0 ? total / 2 : -((1 - total) / 2);
    crop.low[i] = auto_pad == "SAME_UPPER" ? half : total - half;
    crop.high[i] = total - crop.low[i];
  }
  return crop;
}

/// Weights [C, M/groups, k...] of a transposed convolution as those of the convolution that
/// computes it: [M, C/groups, k...], each window reversed.
ValueId transposed_weights(GraphBuilder& b, ValueId w, int64_t groups) {
  const Shape shape = b.shape(w);
  int64_t inputs = shape[0] / groups, outputs = shape[1];
  Shape split = {groups, inputs, outputs};
  split.insert(split.end(), shape.begin() + 2, shape.end());
  w = b.swap_axes(b.reshape(w, split), 1, 2);
  Shape joined = {groups * outputs, inputs};
  joined.insert(joined.end(), shape.begin() + 2, shape.end());
  w = b.reshape(w, joined);
  for (int64_t axis = 2; axis < b.rank(w); ++axis) w = b.reverse(w, axis);
  return w;
}

/// The convolution whose input has stride - 1 zeros between neighbours.
void translate_conv_transpose(OpContext& n) {
  GraphBuilder& b = n.b;
  ValueId x = n.input(0), w = n.input(1);
  Shape extents = spatial_extents(n, x);
  size_t rank = extents.size();
  n.require(rank > 0, "a convolution needs a spatial axis");
  n.require(b.dtype(x) == b.dtype(w), "input and weights must have one type");
  n.require(b.rank(w) == b.rank(x), "the weights must have as many axes as the input");
  int64_t groups = n.int_attr("group", 1);
  n.require(b.extent(w, 0) == b.extent(x, 1) && groups >= 1 && b.extent(w, 0) % groups == 0,
            "group and the input channels of x and w do not fit");
  std::vector<int64_t> strides = spatial_attr(n, "strides", rank, 1, 1);
  std::vector<int64_t> dilations = spatial_attr(n, "dilations", rank, 1, 1);
  std::vector<int64_t> more = spatial_attr(n, "output_padding", rank, 0, 0);
  Shape full(rank);
  std::vector<int64_t> reach(rank);
  for (size_t i = 0; i < rank; ++i) {
    n.require(extents[i] > 0, "a transposed convolution needs a non-empty input");
    reach[i] = (b.extent(w, static_cast<int64_t>(i) + 2) - 1) * dilations[i];
    full[i] = (extents[i] - 1) * strides[i] + reach[i] + 1 + more[i];
  }
  Crop crop = read_crop(n, full, extents, strides);
  // What the crop leaves of the reach is the padding of the convolution; beyond it the result is
  // cut.
  ConvolutionAttrs attrs;
  std::vector<int64_t> cut_low(rank + 2, 0), cut_high(rank + 2, 0);
  for (size_t i = 0; i < rank; ++i) {
    n.require(crop.low[i] + crop.high[i] <= full[i], "pads cut away the whole output");
    attrs.low.push_back(std::max<int64_t>(0, reach[i] - crop.low[i]));
    attrs.high.push_back(std::max<int64_t>(0, reach[i] + more[i] - crop.high[i]));
    cut_low[i + 2] = std::min<int64_t>(0, reach[i] - crop.low[i]);
    cut_high[i + 2] = std::min<int64_t>(0, reach[i] + more[i] - crop.high[i]);
  }
  attrs.strides.assign(rank, 1);
  attrs.lhs_dilations = strides;
  attrs.rhs_dilations = dilations;
  attrs.groups = groups;
  DType type = working_type(b.dtype(x));
  ValueId y = b.convolution(x, transposed_weights(b, w, groups), attrs, type);
  y = b.pad(y, b.scalar(type, 0), cut_low, cut_high);
  y = add_bias(n, y, n.optional_input(2));
  n.set_output(0, b.convert(y, b.dtype(x)));
}

/// [batch, length, channels...] as [batch, channels, length]; any other tensor as it is.
ValueId channels_first(GraphBuilder& b, ValueId x, bool channels_last) {
  if (!channels_last) return x;
  const Shape shape = b.shape(x);
  if (shape.size() < 3) return x;
  int64_t channels = 1;
  for (size_t i = 2; i < shape.size(); ++i) channels *= shape[i];
  return b.swap_axes(b.reshape(x, {shape[0], shape[1], channels}), 1, 2);
}

/// A depthwise convolution over past_state followed by the input; of that sequence the last
/// positions that a window reaches back to are the next state. onnxruntime's form may have its taps
/// apart, and its channels last, in several axes.
void translate_causal_conv_with_state(OpContext& n) {
  GraphBuilder& b = n.b;
  if (n.int_attr("ndim", 1) != 1) n.unsupported("more than one spatial axis");
  if (n.int_attr("state_window", 0) != 0) n.unsupported("states of several positions");
  const bool last = n.bool_attr("channels_last", false);
  const int64_t dilation = n.int_attr("dilation", 1);
  n.require(dilation >= 1 && dilation < int64_t{1} << 31, "dilation is out of range");
  ValueId x = channels_first(b, n.input(0), last), w = n.input(1);
  n.require(b.rank(x) == 3 && b.rank(w) == 3, "input and weight must have three axes");
  n.require(b.dtype(x) == b.dtype(w), "input and weight must have one type");
  int64_t channels = b.extent(x, 1), kernel = b.extent(w, 2);
  n.require(b.extent(w, 0) == channels && b.extent(w, 1) == 1 && kernel >= 1,
            "weight must be of shape (channels, 1, k)");
  const int64_t reach = (kernel - 1) * dilation;
  Shape state_shape = {b.extent(x, 0), channels, reach};
  ValueId past =
      n.has_input(3) ? channels_first(b, n.input(3), last) : b.full(b.dtype(x), state_shape, 0);
  n.require(b.shape(past) == state_shape,
            "past_state must hold (k - 1) * dilation positions of each channel");
  ValueId sequence = b.concat({past, x}, 2);
  ConvolutionAttrs attrs{{1}, {0}, {0}, {1}, {dilation}, channels};
  ValueId y = b.convolution(sequence, w, attrs, working_type(b.dtype(x)));
  if (n.has_input(2)) y = b.add(y, per_channel(b, b.convert(n.input(2), b.dtype(y)), 3));
  std::string activation = n.string_attr("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = b.mul(y, b.unary(ScalarOp::kSigmoid, y));
  } else if (activation != "none") {
    n.invalid("activation \"" + activation + "\" is not one that ONNX has");
  }
  // In the layout of the inputs.
  const auto laid_out = [&](ValueId v) {
    if (!last) return v;
    Shape shape = b.shape(n.input(0));
    shape[1] = b.extent(v, 2);
    return b.reshape(b.swap_axes(v, 1, 2), shape);
  };
  n.set_output(0, laid_out(b.convert(y, b.dtype(x))));
  int64_t length = b.extent(sequence, 2);
  n.set_output(1, laid_out(b.slice_axis(sequence, 2, length - reach, length)));
}

const Translator kRows[] = {
    {"", "CausalConvWithState", 27, translate_causal_conv_with_state},
    {"", "Col2Im", 18, translate_col2im},
    {"", "Conv", 1, translate_conv},
    {"", "ConvTranspose", 1, translate_conv_transpose},
    {"", "DeformConv", 19, translate_deform_conv},
    {"com.microsoft", "CausalConvWithState", 1, translate_causal_conv_with_state},
};

}  // namespace

TranslatorTable convolution_translators() { return kRows; }

}  // namespace weft::onnx
