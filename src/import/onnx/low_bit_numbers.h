#pragma once

#include "import/onnx/translator.h"

namespace weft::onnx {

/// The numbers of 2, 4 or 8 bits of uint8 bytes along an axis that has extent 1 so far, lowest bits
/// first.
ValueId taken_apart(GraphBuilder& b, ValueId bytes, int64_t bits, int64_t axis);

/// Numbers of 2, 4 or 8 bits, `per_row` in each row of bytes, lowest bits first. `bytes` is uint8
/// of any shape with rows * ceil(per_row * bits / 8) elements, which is refused otherwise.
///     0x21 0x43, 4 bits, 1 row of 3  ->  uint8[1,3] 1 2 3
ValueId unpacked(OpContext& n, ValueId bytes, int64_t bits, int64_t rows, int64_t per_row);

/// Each element along an axis `block` times, of which the first `extent` stay: a scale for each
/// element of blocks of `block` elements.
///     1 2, block 3, extent 5  ->  1 1 1 2 2
ValueId repeated(GraphBuilder& b, ValueId v, int64_t axis, int64_t block, int64_t extent);

}  // namespace weft::onnx
