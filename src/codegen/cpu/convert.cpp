#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PatternMatch.h>

#include <cmath>
#include <limits>
#include <optional>

#include "codegen/cpu/scalar_emitter.h"
#include "support/check.h"

namespace weft::cpu {
namespace {

using V = LaneBuilder::V;

unsigned bit_width(DType dtype) { return static_cast<unsigned>(byte_size(dtype)) * 8; }

bool is_single(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

/// Exact. What is denormal is put below the last bit of a number, which is taken off again: runs
/// take denormal numbers for zero.
V half_to_single(const LaneBuilder& k, V half) {
  llvm::IRBuilder<>& b = k.b;
  if (k.isa().f16c) {
    return b.CreateFPExt(b.CreateBitCast(half, k.wide(b.getHalfTy())), k.f32_type());
  }
  V bits = b.CreateZExt(half, k.int_type(32));
  V magnitude = b.CreateShl(b.CreateAnd(bits, k.integer(32, 0x7fff)), k.integer(32, 13));
  V sign = b.CreateShl(b.CreateAnd(bits, k.integer(32, 0x8000)), k.integer(32, 16));
  V rebased = b.CreateAdd(magnitude, k.integer(32, 112 << 23));
  V least = k.f32(0x1p-14);
  V denormal = k.bits(k.sub(k.as_f32(b.CreateOr(magnitude, k.bits(least))), least));
  V value = k.select(b.CreateICmpULT(magnitude, k.integer(32, 0x400 << 13)), denormal, rebased);
  V special = b.CreateICmpUGE(magnitude, k.integer(32, 0x7c00 << 13));
  value = k.select(special, b.CreateOr(magnitude, k.integer(32, 0x7f800000)), value);
  return k.as_f32(b.CreateOr(value, sign));
}

/// Round to nearest even: what is normal by adding just below half of the last bit, what is
/// denormal by adding the number whose last bit is that of the result.
V single_to_half(const LaneBuilder& k, V single) {
  llvm::IRBuilder<>& b = k.b;
  if (k.isa().f16c) {
    if (const auto* widened = llvm::dyn_cast<llvm::FPExtInst>(single);
        widened != nullptr && widened->getSrcTy()->getScalarType()->isHalfTy()) {
      return b.CreateBitCast(widened->getOperand(0), k.int_type(16));  // rounded before
    }
    // Kept apart from a float64 before it: the two roundings in one would be a call of a library.
    single = k.fence(single);
    return b.CreateBitCast(b.CreateFPTrunc(single, k.wide(b.getHalfTy())), k.int_type(16));
  }
  V bits = k.bits(single);
  V magnitude = b.CreateAnd(bits, k.integer(32, 0x7fffffff));
  V sign = b.CreateAnd(b.CreateLShr(bits, k.integer(32, 16)), k.integer(32, 0x8000));
  V odd = b.CreateAnd(b.CreateLShr(magnitude, k.integer(32, 13)), k.integer(32, 1));
  V rebased = b.CreateAdd(magnitude, k.integer(32, -(int64_t{112} << 23) + 0xfff));
  V normal = b.CreateLShr(b.CreateAdd(rebased, odd), k.integer(32, 13));
  V raised = k.add(k.as_f32(magnitude), k.f32(0.5));
  V denormal = b.CreateSub(k.bits(raised), k.bits(k.f32(0.5)));
  V half = k.select(b.CreateICmpULT(magnitude, k.integer(32, 113 << 23)), denormal, normal);
  half =
      k.select(b.CreateICmpUGE(magnitude, k.integer(32, 143 << 23)), k.integer(32, 0x7c00), half);
  half =
      k.select(b.CreateICmpUGT(magnitude, k.integer(32, 0x7f800000)), k.integer(32, 0x7e00), half);
  return b.CreateTrunc(b.CreateOr(half, sign), k.int_type(16));
}

/// float32 bits whose lower half is to be dropped. By integers, since the machine's own instruction
/// takes denormals for zero.
V round_to_bfloat16_bits(const LaneBuilder& k, V single) {
  llvm::IRBuilder<>& b = k.b;
  V bits = k.bits(single);
  V odd = b.CreateAnd(b.CreateLShr(bits, k.integer(32, 16)), k.integer(32, 1));
  V rounded = b.CreateAdd(bits, b.CreateAdd(odd, k.integer(32, 0x7fff)));
  V quiet = b.CreateOr(bits, k.integer(32, 0x400000));
  return k.select(k.is_nan(single), quiet, rounded);
}

/// A float32 that is rounded to an integer, half to even, before an integer is added.
struct Rounded {
  V value = nullptr;
  V added = nullptr, added_integer = nullptr;  ///< in float32, and in 32 bits
};

/// An integer of 16 bits or so in float32, the same in all lanes, in 32 bits: a constant, or what
/// launches bring along (kernel/share_literals.h). Null for others.
V integer_of(const LaneBuilder& k, V number) {
  using namespace llvm::PatternMatch;
  constexpr double kMost = 1 << 16;
  const llvm::APFloat* constant = nullptr;
  if (match(number, m_APFloat(constant))) {
    const double value = constant->convertToDouble();
    const bool whole = std::abs(value) <= kMost && value == std::trunc(value);
    return whole ? k.integer(32, static_cast<int64_t>(value)) : nullptr;
  }
  llvm::Value* scalar = number;
  if (number->getType()->isVectorTy()) scalar = llvm::getSplatValue(number);
  llvm::Value* word = nullptr;
  if (scalar == nullptr || !match(scalar, m_SIToFP(m_Value(word))) ||
      !word->getType()->isIntegerTy(16))
    return nullptr;
  V wide = k.b.CreateSExt(word, k.b.getInt32Ty());
  return k.lanes() == 1 ? wide : k.b.CreateVectorSplat(static_cast<unsigned>(k.lanes()), wide);
}

std::optional<Rounded> rounded_sum(const LaneBuilder& k, V sum) {
  using namespace llvm::PatternMatch;
  if (!sum->getType()->getScalarType()->isFloatTy()) return {};
  llvm::Value *value = nullptr, *added = nullptr;
  if (match(sum, m_Intrinsic<llvm::Intrinsic::roundeven>(m_Value(value))))
    return Rounded{value, k.f32(0), k.integer(32, 0)};
  if (!match(sum,
             m_c_FAdd(m_Intrinsic<llvm::Intrinsic::roundeven>(m_Value(value)), m_Value(added))))
    return {};
  V integer = integer_of(k, added);
  if (integer == nullptr) return {};
  return Rounded{value, added, integer};
}

/// An integer of 32 bits that is in the narrower type's range.
V clamped_to(const LaneBuilder& k, DType to, V integer) {
  const bool is_signed = is_signed_integer(to);
  return k.b.CreateTrunc(integer, k.int_type(bit_width(to)), "", !is_signed, is_signed);
}

/// Of what a quantisation rounds, with its zero point: clamped before it is rounded, as all bounds
/// are integers, and rounded by the conversion.
V rounded_to_integer(const LaneBuilder& k, DType to, const Rounded& sum, double bottom,
                     double top) {
  const V low = k.sub(k.f32(bottom), sum.added), high = k.sub(k.f32(top), sum.added);
  const V of_nan = k.sub(k.f32(0), sum.added);  // NaN becomes 0
  const V number = bottom == 0 ? sum.value : k.select(k.is_nan(sum.value), of_nan, sum.value);
  const V above = bottom == 0 ? k.select(k.gt(number, low), number, low) : k.at_least(number, low);
  V integer = k.b.CreateIntrinsic(llvm::Intrinsic::lrint, {k.int_type(32), number->getType()},
                                  {k.at_most(above, high)});
  integer = k.b.CreateAdd(integer, sum.added_integer);
  return clamped_to(k, to, integer);
}

V float_to_integer(const LaneBuilder& k, DType to, V value) {
  llvm::Type* type = k.int_type(bit_width(to));
  // Narrow ones through 32 bits, where the machine converts: clamp first, which is exact.
  const bool narrow = bit_width(to) < 32;
  if (narrow) {
    const bool is_signed = is_signed_integer(to);
    const double top =
        static_cast<double>((int64_t{1} << (bit_width(to) - (is_signed ? 1 : 0))) - 1);
    const double bottom = is_signed ? -top - 1 : 0;
    if (const std::optional<Rounded> sum = rounded_sum(k, value))
      return rounded_to_integer(k, to, *sum, bottom, top);
    const V low = k.like(value, bottom);
    // NaN becomes 0, which for unsigned integers is the bound that it is not greater than.
    const V above = is_signed ? k.at_least(k.select(k.is_nan(value), k.like(value, 0), value), low)
                              : k.select(k.gt(value, low), value, low);
    const V inside = k.at_most(above, k.like(value, top));
    return clamped_to(k, to, k.b.CreateFPToSI(inside, k.int_type(32)));
  }
  const auto id = is_signed_integer(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  return k.b.CreateIntrinsic(id, {type, value->getType()}, {value});
}

V integer_to_integer(const LaneBuilder& k, DType from, DType to, V value) {
  llvm::Type* type = k.int_type(bit_width(to));
  return is_signed_integer(from) ? k.b.CreateSExtOrTrunc(value, type)
                                 : k.b.CreateZExtOrTrunc(value, type);
}

V integer_to_float(const LaneBuilder& k, DType from, DType to, V value) {
  llvm::Type* type = is_single(to) ? k.f32_type() : k.f64_type();
  return is_signed_integer(from) ? k.b.CreateSIToFP(value, type) : k.b.CreateUIToFP(value, type);
}

}  // namespace

llvm::Type* register_type(const LaneBuilder& k, DType dtype) {
  if (dtype == DType::kBool) return k.int_type(1);
  if (dtype == DType::kF64) return k.f64_type();
  return is_single(dtype) ? k.f32_type() : k.int_type(bit_width(dtype));
}

llvm::Type* memory_type(const LaneBuilder& k, DType dtype) {
  if (dtype == DType::kF64 || dtype == DType::kF32) return register_type(k, dtype);
  return k.int_type(bit_width(dtype));
}

V to_register(const LaneBuilder& k, DType dtype, V memory) {
  switch (dtype) {
    case DType::kBool:
      return k.b.CreateICmpNE(memory, k.integer(8, 0));
    case DType::kF16:
      return half_to_single(k, memory);
    case DType::kBF16:
      return k.as_f32(k.b.CreateShl(k.b.CreateZExt(memory, k.int_type(32)), k.integer(32, 16)));
    default:
      return memory;
  }
}

V to_memory(const LaneBuilder& k, DType dtype, V value) {
  switch (dtype) {
    case DType::kBool:
      return k.b.CreateZExt(value, k.int_type(8));
    case DType::kF16:
      return single_to_half(k, value);
    case DType::kBF16:  // held exactly already, NaN too
      return k.b.CreateTrunc(k.b.CreateLShr(k.bits(value), k.integer(32, 16)), k.int_type(16));
    default:
      return value;
  }
}

V round_to(const LaneBuilder& k, DType dtype, V value) {
  if (dtype == DType::kF16) return half_to_single(k, single_to_half(k, value));
  if (dtype != DType::kBF16) return value;
  V bits = round_to_bfloat16_bits(k, value);
  return k.as_f32(k.b.CreateAnd(bits, k.integer(32, -65536)));
}

V splat(const LaneBuilder& k, V scalar) {
  using namespace llvm::PatternMatch;
  llvm::IRBuilder<>& b = k.b;
  const auto lanes = static_cast<unsigned>(k.lanes());
  llvm::Value* half = nullptr;
  if (k.isa().avx2 && match(scalar, m_FPExt(m_BitCast(m_Value(half)))) &&
      half->getType()->isIntegerTy(16)) {
    return half_to_single(k, b.CreateVectorSplat(lanes, half));
  }
  if (k.isa().avx2 && match(scalar, m_BitCast(m_Shl(m_ZExt(m_Value(half)), m_SpecificInt(16)))) &&
      half->getType()->isIntegerTy(16)) {
    V pairs = b.CreateBitCast(b.CreateVectorSplat(2 * lanes, half), k.int_type(32));
    return k.as_f32(b.CreateShl(pairs, k.integer(32, 16)));
  }
  return b.CreateVectorSplat(lanes, scalar);
}

V constant_of(const LaneBuilder& k, const ScalarValue& value) {
  if (!is_float(value.type)) {
    const unsigned bits = value.type == DType::kBool ? 1 : bit_width(value.type);
    return k.integer(bits, value.type == DType::kBool ? (value.i != 0 ? 1 : 0) : value.i);
  }
  return value.type == DType::kF64 ? k.f64(value.f) : k.f32(value.f);
}

V convert(const LaneBuilder& k, DType from, DType to, V value) {
  llvm::IRBuilder<>& b = k.b;
  if (from == to) return value;
  if (to == DType::kBool) {
    return is_float(from) ? b.CreateFCmpUNE(value, k.like(value, 0))
                          : b.CreateICmpNE(value, k.integer(bit_width(from), 0));
  }
  if (is_float(from)) {
    if (!is_float(to)) return float_to_integer(k, to, value);
    if (from == DType::kF64) value = k.to_f32(value);
    if (to == DType::kF64) return k.to_f64(value);
    return round_to(k, to, value);
  }
  if (is_float(to)) return round_to(k, to, integer_to_float(k, from, to, value));
  return integer_to_integer(k, from, to, value);
}

}  // namespace weft::cpu
