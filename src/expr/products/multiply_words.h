#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// For processors that multiply words of 16 bits and add pairs of their products up in 32, but no
/// bytes: the left factors of products of bytes (expr/products/integer_products.h) become words. A
/// tile multiplies what it broadcasts as it is then, where it would take the bytes of each row
/// apart once for every panel; the right factors' bytes are widened as they are loaded:
///     q: u8[128,768] = u8(…)                      q: i16[128,768] = i16(u8(…))
///     sum[768] i32(q[d0,r0]) * i32(w[r0,d1])      …
/// What has to be there in bytes (inputs, outputs, what loops carry), or is made by a reduction,
/// gets a copy in words.
///
/// Requires: a verified program without layouts. Returns whether anything changed.
bool multiply_words(TensorProgram& program);

}  // namespace weft
