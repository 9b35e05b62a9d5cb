#pragma once

#include "expr/layout.h"
#include "support/tensor.h"

namespace weft {

/// The constant's elements in the physical order of `layout`, as one flat tensor; what the layout
/// has beyond the shape is zero.
HostTensor pack_constant(const HostTensor& value, const Layout& layout);

}  // namespace weft
