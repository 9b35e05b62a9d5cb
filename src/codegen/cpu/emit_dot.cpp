#include "codegen/cpu/emit_dot.h"

#include <llvm/IR/IntrinsicsX86.h>

namespace weft::cpu {

namespace {

using V = llvm::Value*;

constexpr llvm::Intrinsic::ID kNone = llvm::Intrinsic::not_intrinsic;

llvm::Intrinsic::ID dot_of_bytes(const LaneBuilder& k) {
  switch (k.lanes()) {
    case 16:
      return k.isa().avx512vnni ? llvm::Intrinsic::x86_avx512_vpdpbusd_512 : kNone;
    case 8:
      return k.isa().vnni ? llvm::Intrinsic::x86_avx512_vpdpbusd_256 : kNone;
    case 4:
      return k.isa().vnni ? llvm::Intrinsic::x86_avx512_vpdpbusd_128 : kNone;
    default:
      return kNone;
  }
}

llvm::Intrinsic::ID dot_of_words(const LaneBuilder& k) {
  switch (k.lanes()) {
    case 16:
      return k.isa().avx512 ? llvm::Intrinsic::x86_avx512_pmaddw_d_512 : kNone;
    case 8:
      return k.isa().avx2 ? llvm::Intrinsic::x86_avx2_pmadd_wd : kNone;
    case 4:
      return llvm::Intrinsic::x86_sse2_pmadd_wd;
    default:
      return kNone;
  }
}

bool has_words(V b) { return b->getType()->getScalarSizeInBits() == 16; }

/// By products of 32 bits.
V dot_written_out(const LaneBuilder& k, V sums, V a, V b) {
  const int depth = has_words(a) ? 2 : 4;
  const LaneBuilder wide = k.with_lanes(depth * k.lanes());
  V left =
      has_words(a) ? k.b.CreateSExt(a, wide.int_type(32)) : k.b.CreateZExt(a, wide.int_type(32));
  V products = k.b.CreateMul(left, k.b.CreateSExt(b, wide.int_type(32)));
  for (int j = 0; j < depth; ++j) {
    if (k.lanes() == 1) {
      sums = k.b.CreateAdd(sums, k.b.CreateExtractElement(products, static_cast<uint64_t>(j)));
      continue;
    }
    std::vector<int> picked;
    for (int l = 0; l < k.lanes(); ++l) picked.push_back(depth * l + j);
    sums = k.b.CreateAdd(sums, k.b.CreateShuffleVector(products, picked));
  }
  return sums;
}

llvm::Intrinsic::ID dot_of_bfloats(const LaneBuilder& k) {
  if (!k.isa().avx512bf16) return kNone;
  switch (k.lanes()) {
    case 16:
      return llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512;
    case 8:
      return llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256;
    case 4:
      return llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128;
    default:
      return kNone;
  }
}

/// Two products a lane, the second one first as the processor has it.
V emit_bfloat_dot(const LaneBuilder& k, V sums, V a, V b) {
  if (const llvm::Intrinsic::ID id = dot_of_bfloats(k); id != kNone) {
    llvm::Type* pairs = k.with_lanes(2 * k.lanes()).wide(k.b.getBFloatTy());
    return k.b.CreateIntrinsic(sums->getType(), id,
                               {sums, k.b.CreateBitCast(a, pairs), k.b.CreateBitCast(b, pairs)});
  }
  V left = k.b.CreateBitCast(a, k.int_type(32)), right = k.b.CreateBitCast(b, k.int_type(32));
  const auto second = [&](V v) { return k.as_f32(k.b.CreateAnd(v, k.integer(32, -65536))); };
  const auto first = [&](V v) { return k.as_f32(k.b.CreateShl(v, k.integer(32, 16))); };
  return k.fused(first(left), first(right), k.fused(second(left), second(right), sums));
}

}  // namespace

V emit_dot(const LaneBuilder& k, V sums, V a, V b) {
  if (sums->getType()->isFPOrFPVectorTy()) return emit_bfloat_dot(k, sums, a, b);
  if (const llvm::Intrinsic::ID id = dot_of_bytes(k); id != kNone && !has_words(a)) {
    return k.b.CreateIntrinsic(sums->getType(), id, {sums, a, b});
  }
  const llvm::Intrinsic::ID id = dot_of_words(k);
  if (id == kNone) return dot_written_out(k, sums, a, b);
  if (has_words(a)) return k.b.CreateAdd(sums, k.b.CreateIntrinsic(sums->getType(), id, {a, b}));
  // Bytes at even positions, then those at odd ones, as words: their shifts are shared by all
  // products of the vector.
  llvm::Type* words = k.with_lanes(2 * k.lanes()).int_type(16);
  V left = k.b.CreateBitCast(a, words);
  const auto sum = [&](V x, V y) { return k.b.CreateIntrinsic(sums->getType(), id, {x, y}); };
  V right = k.b.CreateBitCast(b, words);
  V even = sum(k.b.CreateAnd(left, 0xff), k.b.CreateAShr(k.b.CreateShl(right, 8), 8));
  V odd = sum(k.b.CreateLShr(left, 8), k.b.CreateAShr(right, 8));
  return k.b.CreateAdd(sums, k.b.CreateAdd(even, odd));
}

}  // namespace weft::cpu
