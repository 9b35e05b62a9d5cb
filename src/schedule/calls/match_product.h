#pragma once

#include <optional>

#include "schedule/calls/library_group.h"
#include "target/product_call.h"

namespace weft {

/// A call and the tensors that its buffers are.
struct MatchedProduct {
  ProductCall call;  ///< without positions
  TensorId a = -1, b = -1, bias = -1;
};

/// The product of two matrices (or of a batch of them) that the whole group is, with a bias along
/// its columns, a clamp at zero and a conversion to the result's type after it; nullopt when it is
/// more than that.
std::optional<MatchedProduct> match_product(const LibraryGroup& group, const GroupAxes& axes);

}  // namespace weft
