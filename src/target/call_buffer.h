#pragma once

#include <cstdint>

#include "support/dtype.h"

namespace weft {

/// What a library call touches of one of its kernel's buffers.
struct CallBuffer {
  int32_t position = 0;  ///< among the kernel's buffers
  DType type = DType::kF32;
  int64_t elements = 0;  ///< from the first to behind the last that is touched
  bool written = false;
};

}  // namespace weft
