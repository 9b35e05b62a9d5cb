#pragma once

#include "lower/core/kernel_writer.h"

namespace weft::lowering {

/// Rule 1a: the element in the reader's own register, or by a shuffle from another lane's.
Reg read_register(KernelWriter& w, const Scalar& read, const RegisterTile& tile,
                  const Point& point);

}  // namespace weft::lowering
