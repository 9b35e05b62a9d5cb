#pragma once

#include "codegen/cpu/lane_builder.h"
#include "graph/scalar_op.h"

namespace weft::cpu {

/// The elementary functions as code in place. Coefficients are minimax fits made for these forms
/// (the exponent of two of the error stands beside each).
///
/// On float32 vectors: exp, expm1, log, log1p, tanh, sigmoid and erf are float32 arithmetic within
/// 4 ulp, and so within 2 are sin and cos where the machine has an FMA; all others go through
/// float64 and come out correct but for rare last bits. On float64 vectors: within 1e-14 relative.
/// NaN, infinities, signed zeros and denormals as C's functions have them.

/// exp(x) for x <= 0, -inf and NaN, in 9 instructions on AVX-512. Its relative error is 2.5e-7 plus
/// 8e-8 |x|: the product with log2(e) is rounded, which a softmax does not feel, since its small
/// terms are those that err. What would be denormal is 0: processors take a hundred cycles for a
/// product with it, and masks of -100 make many. float32 only.
llvm::Value* exp_nonpositive(const LaneBuilder& k, llvm::Value* x);

llvm::Value* exp_f32(const LaneBuilder& k, llvm::Value* x);
llvm::Value* expm1_f32(const LaneBuilder& k, llvm::Value* x);
llvm::Value* log_f32(const LaneBuilder& k, llvm::Value* x);
llvm::Value* log1p_f32(const LaneBuilder& k, llvm::Value* x);
llvm::Value* tanh_f32(const LaneBuilder& k, llvm::Value* x);
llvm::Value* sigmoid_f32(const LaneBuilder& k, llvm::Value* x);
llvm::Value* erf_f32(const LaneBuilder& k, llvm::Value* x);
llvm::Value* sin_f32(const LaneBuilder& k, llvm::Value* x);
llvm::Value* cos_f32(const LaneBuilder& k, llvm::Value* x);

llvm::Value* exp_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* expm1_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* log_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* log1p_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* pow_f64(const LaneBuilder& k, llvm::Value* x, llvm::Value* y);
llvm::Value* sinh_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* cosh_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* tanh_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* sigmoid_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* erf_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* asinh_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* acosh_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* atanh_f64(const LaneBuilder& k, llvm::Value* x);

llvm::Value* sin_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* cos_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* tan_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* asin_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* acos_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* atan_f64(const LaneBuilder& k, llvm::Value* x);
llvm::Value* atan2_f64(const LaneBuilder& k, llvm::Value* y, llvm::Value* x);

/// C's fmod, exact, on either float type.
llvm::Value* remainder_of(const LaneBuilder& k, llvm::Value* x, llvm::Value* y);

/// The function `op` on float32 or float64 vectors; null for what is not one of the above.
llvm::Value* elementary(const LaneBuilder& k, ScalarOp op, std::span<llvm::Value* const> operands);

}  // namespace weft::cpu
