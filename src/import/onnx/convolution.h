#pragma once

#include "import/onnx/windows.h"

namespace weft::onnx {

/// The attributes of a Conv, QLinearConv or ConvInteger of x with w, after checking that they fit.
ConvolutionAttrs read_convolution(OpContext& n, ValueId x, ValueId w);

/// x convolved with w in the working type, plus a bias per output channel (or kNoValue).
ValueId convolve(OpContext& n, ValueId x, ValueId w, ValueId bias);

void translate_deform_conv(OpContext& n);
void translate_col2im(OpContext& n);

}  // namespace weft::onnx
