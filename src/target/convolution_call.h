#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"
#include "target/call_buffer.h"

namespace weft {

/// What cuDNN is asked for: y = convolution of x with w, then bias, residual and clamp as asked
/// for.
///
///     x: images, channels, input…            channels_last: images, input…, channels
///     w: features, channels / groups, window…               features, window…, channels / groups
///     y, residual: images, features, output…                images, output…, features
///     bias: features
///
/// Everything is dense, in this order, and of one type; products are summed up in float32. The
/// output's extents follow from the others (output_extent). Residual and clamp come with a bias
/// only. `x`, `w`, `y`, `bias` and `residual` are positions among the kernel's buffers.
struct ConvolutionCall {
  DType type = DType::kF32;
  bool channels_last = false;
  int64_t images = 1, channels = 1, features = 1, groups = 1;
  /// Along each axis of an image, of which there are one to three.
  struct Axis {
    int64_t input = 1, window = 1, stride = 1, dilation = 1;
    int64_t padding = 0;  ///< zeros on either side
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  std::vector<Axis> axes;
  int32_t x = 0, w = 1, y = 2;
  int32_t bias = -1, residual = -1;  ///< none when negative
  bool clamps = false;               ///< max(0, …) at last
  friend bool operator==(const ConvolutionCall&, const ConvolutionCall&) = default;
};

/// Positions of the window along an axis; 0 or less where it fits nowhere.
int64_t output_extent(const ConvolutionCall::Axis& axis);

/// `f16 last 8 images 64 -> 128 groups 1 input 56x56 window 3x3 stride 2x2 dilation 1x1 padding 1x1
/// x 0 w 1 y 4 bias 2 residual 3 clamps`; `first` where channels are not last.
std::string print(const ConvolutionCall& call);
/// kInvalidInput for a text that print() does not write.
Result<ConvolutionCall> parse_convolution_call(std::string_view text);

/// Positive sizes that fit 32 bits, as does each tensor's number of elements; groups that divide
/// channels and features; types that there are. kInvalidInput says which.
Status verify_convolution_call(const ConvolutionCall& call);

/// Requires: the call is verified.
std::vector<CallBuffer> buffers_of(const ConvolutionCall& call);

}  // namespace weft
