#pragma once

#include "lower/cpu/cpu_writer.h"

namespace weft::lowering {

/// Writes a product of bytes, words or bfloat16, and its addition to a carry, numbers `first` and
/// `first + 1` of a body, as dot instructions:
///     p[m,n] = sum[k] i32(a[m,k]) * i32(b[k,n]) by dot_u8s8;  acc'[m,n] = acc[m,n] + p[m,n];
///     p[m,n] = sum[k] i32(a[m,k]) * i32(b[k,n]) by dot_s16s8;  …
///     p[m,n] = sum[k] f32(a[m,k]) * f32(b[k,n]) by dot_bf16;  …
/// Four neighbours of the left factor, two of words or bfloat16, are one number, broadcast to the
/// lanes; those of the right one lie side by side, lane by lane. False, and nothing written, where
/// they do not: then it is a sum like any other.
bool emit_dot_product(CpuWriter& w, const TileBody& body, size_t first);

}  // namespace weft::lowering
