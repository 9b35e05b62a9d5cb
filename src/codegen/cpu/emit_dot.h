#pragma once

#include "codegen/cpu/lane_builder.h"

namespace weft::cpu {

/// sums[l] + a[4l] * b[4l] + … + a[4l+3] * b[4l+3], exact modulo 2^32: `sums` of k's lanes in i32,
/// `a` unsigned and `b` signed bytes of four times as many. One vpdpbusd where the target has it;
/// else sums of 16-bit products (vpmaddwd), which cannot saturate as those of bytes do. `b` may be
/// of words in the order of the instruction (kernel/ops.def), which then need no widening.
///
/// With `sums` in float32 and the bits of twice as many bfloat16: sums[l] + a[2l+1] * b[2l+1] +
/// a[2l] * b[2l]. One vdpbf16ps where the target has it, which takes denormal factors and sums for
/// zero; else two fused multiply-adds, which do the same otherwise.
llvm::Value* emit_dot(const LaneBuilder& k, llvm::Value* sums, llvm::Value* a, llvm::Value* b);

}  // namespace weft::cpu
