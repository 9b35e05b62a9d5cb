#pragma once

#include "support/tensor.h"

namespace weft {

/// A tensor of float32 or 16-bit floats as one of float32, of the same shape; exact.
HostTensor float32_tensor(const HostTensor& floats);

}  // namespace weft
