#pragma once

#include "import/onnx/windows.h"

namespace weft::onnx {

/// The attributes of a Conv, QLinearConv or ConvInteger of x with w, after checking that they fit.
ConvolutionAttrs read_convolution(OpContext& n, ValueId x, ValueId w);

/// A value per channel as a tensor that broadcasts along the channel axis of `rank` axes.
///     f32[8], rank 4   ->   f32[1,8,1,1]
ValueId per_channel(GraphBuilder& b, ValueId values, int64_t rank);

/// x convolved with w in the working type, plus a bias per output channel (or kNoValue).
ValueId convolve(OpContext& n, ValueId x, ValueId w, ValueId bias);

void translate_deform_conv(OpContext& n);
void translate_col2im(OpContext& n);

}  // namespace weft::onnx
