#pragma once

#include <optional>

#include "schedule/calls/library_group.h"
#include "target/convolution_call.h"

namespace weft {

/// A call and the tensors that its buffers are.
struct MatchedConvolution {
  ConvolutionCall call;  ///< without positions
  TensorId x = -1, w = -1, bias = -1, residual = -1;
};

/// The convolution that the whole group is, with bias, residual and clamp after it; nullopt when it
/// is more than that, or tensors lie otherwise than a ConvolutionCall says: padding that differs at
/// the two ends of an axis (unless the window stops short of the end anyway), positions between the
/// elements of the input, weights in another order.
///
/// Requires: tensors of the program are row-major (GroupView).
std::optional<MatchedConvolution> match_convolution(const LibraryGroup& group);

}  // namespace weft
