#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <cstdint>
#include <initializer_list>
#include <span>

#include "target/target.h"

namespace weft::cpu {

/// What the generator asks of the target's instruction set.
struct Isa {
  explicit Isa(const Target& target);

  bool fma = false;
  bool f16c = false;
  bool sse41 = false;
  bool avx2 = false;
  bool vnni = false;        ///< vpdpbusd of up to 32 bytes
  bool avx512vnni = false;  ///< of 64
  bool avx512bf16 = false;  ///< vdpbf16ps
  bool avx512vbmi = false;  ///< vpermi2b
  bool avx512 = false;      ///< f, bw, dq, vl and cd together
  int vector_bytes = 16;
};

/// Writes arithmetic on values of `lanes` lanes (a scalar when 1): constants are splat, comparisons
/// give i1 or a vector of them. A thin layer over IRBuilder, in which the elementary functions are
/// written once for all widths.
class LaneBuilder {
 public:
  LaneBuilder(llvm::IRBuilder<>& builder, const Isa& isa, int lanes)
      : b(builder), isa_(isa), lanes_(lanes) {}

  using V = llvm::Value*;

  int lanes() const { return lanes_; }
  const Isa& isa() const { return isa_; }
  LaneBuilder with_lanes(int lanes) const { return LaneBuilder(b, isa_, lanes); }

  llvm::Type* wide(llvm::Type* element) const;
  llvm::Type* f32_type() const { return wide(b.getFloatTy()); }
  llvm::Type* f64_type() const { return wide(b.getDoubleTy()); }
  llvm::Type* int_type(unsigned bits) const { return wide(b.getIntNTy(bits)); }
  /// The integer type as wide as the float's elements.
  llvm::Type* bits_type(V value) const;

  V f32(double value) const;
  V f64(double value) const;
  V integer(unsigned bits, int64_t value) const;
  V like(V value, double number) const;  ///< a float of that type

  // a*b + c: fused where the machine can; for polynomials, where either will do.
  V mul_add(V a, V b, V c) const;
  /// a*b + c rounded once, whatever the machine.
  V fused(V a, V b, V c) const;
  V polynomial(V x, std::span<const double> highest_first) const;
  V polynomial(V x, std::initializer_list<double> highest_first) const {
    return polynomial(x, std::span(highest_first.begin(), highest_first.size()));
  }

  V add(V x, V y) const {
    return x->getType()->isFPOrFPVectorTy() ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
  }
  V sub(V x, V y) const {
    return x->getType()->isFPOrFPVectorTy() ? b.CreateFSub(x, y) : b.CreateSub(x, y);
  }
  V mul(V x, V y) const {
    return x->getType()->isFPOrFPVectorTy() ? b.CreateFMul(x, y) : b.CreateMul(x, y);
  }
  V div(V x, V y) const { return b.CreateFDiv(x, y); }
  V neg(V x) const { return b.CreateFNeg(x); }
  V abs(V x) const { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  V sqrt(V x) const { return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
  V copy_sign(V magnitude, V sign) const {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
  }
  V lt(V x, V y) const { return b.CreateFCmpOLT(x, y); }
  V gt(V x, V y) const { return b.CreateFCmpOGT(x, y); }
  V le(V x, V y) const { return b.CreateFCmpOLE(x, y); }
  V ge(V x, V y) const { return b.CreateFCmpOGE(x, y); }
  V eq(V x, V y) const { return b.CreateFCmpOEQ(x, y); }
  V is_nan(V x) const { return b.CreateFCmpUNO(x, x); }
  V both(V x, V y) const { return b.CreateAnd(x, y); }
  V select(V condition, V x, V y) const { return b.CreateSelect(condition, x, y); }
  /// Limits that let NaN through; one instruction each on x86.
  V at_least(V x, V low) const { return select(gt(low, x), low, x); }
  V at_most(V x, V high) const { return select(lt(high, x), high, x); }
  /// Minimum and maximum; NaN if either is, `x` where they compare equal. One to three instructions
  /// on x86.
  V minimum(V x, V y) const { return extremum(x, y, llvm::CmpInst::FCMP_OLT); }
  V maximum(V x, V y) const { return extremum(x, y, llvm::CmpInst::FCMP_OGT); }
  /// A value that no simplification looks through: here, so that a comparison and a selection stay
  /// together as one instruction.
  V fence(V x) const { return b.CreateArithmeticFence(x, x->getType()); }

  V bits(V x) const { return b.CreateBitCast(x, bits_type(x)); }
  V as_f32(V x) const { return b.CreateBitCast(x, f32_type()); }
  V as_f64(V x) const { return b.CreateBitCast(x, f64_type()); }
  V to_f64(V x) const { return b.CreateFPExt(x, f64_type()); }
  V to_f32(V x) const { return b.CreateFPTrunc(x, f32_type()); }
  /// The power of two with the exponent `n` (integers), where it is a normal number.
  V power_of_two(V n) const;

  enum class Rounding : uint8_t { kFloor, kCeil, kTrunc, kNearestEven };
  V round(V x, Rounding rounding) const;

  /// Whether any lane of the condition holds: i1.
  V any(V condition) const;
  /// Runs `body` and takes its value where `condition` (i1) holds, `otherwise` elsewhere.
  template <typename Body>
  V branch(V condition, V otherwise, Body&& body) const {
    llvm::BasicBlock* before = b.GetInsertBlock();
    llvm::BasicBlock* then = new_block("then");
    llvm::BasicBlock* after = new_block("after");
    b.CreateCondBr(condition, then, after);
    b.SetInsertPoint(then);
    V value = body();
    llvm::BasicBlock* then_end = b.GetInsertBlock();
    b.CreateBr(after);
    b.SetInsertPoint(after);
    llvm::PHINode* phi = b.CreatePHI(otherwise->getType(), 2);
    phi->addIncoming(otherwise, before);
    phi->addIncoming(value, then_end);
    return phi;
  }
  /// Repeats while `more(state)` (i1) holds: state = body(state).
  template <typename More, typename Body>
  std::vector<V> loop(std::vector<V> state, More&& more, Body&& body) const {
    llvm::BasicBlock* before = b.GetInsertBlock();
    llvm::BasicBlock* head = new_block("head");
    llvm::BasicBlock* inside = new_block("inside");
    llvm::BasicBlock* after = new_block("after");
    b.CreateBr(head);
    b.SetInsertPoint(head);
    std::vector<llvm::PHINode*> phis;
    for (V& s : state) {
      phis.push_back(b.CreatePHI(s->getType(), 2));
      phis.back()->addIncoming(s, before);
      s = phis.back();
    }
    b.CreateCondBr(more(state), inside, after);
    b.SetInsertPoint(inside);
    const std::vector<V> next = body(state);
    for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(next[i], b.GetInsertBlock());
    b.CreateBr(head);
    b.SetInsertPoint(after);
    return state;
  }

  llvm::IRBuilder<>& b;

 private:
  llvm::BasicBlock* new_block(const char* name) const;
  V fused_f32(V x, V y, V z) const;
  V extremum(V x, V y, llvm::CmpInst::Predicate better) const;
  V round_by_magic(V x, Rounding rounding) const;

  const Isa& isa_;
  int lanes_;
};

/// x*y - p, for p = x*y rounded: the rest of the product, exact.
llvm::Value* product_rest(const LaneBuilder& k, llvm::Value* x, llvm::Value* y, llvm::Value* p);

}  // namespace weft::cpu
