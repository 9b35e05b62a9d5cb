#include "codegen/cpu/emit_look_up.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <array>
#include <numeric>
#include <vector>

namespace weft::cpu {

namespace {

using V = LaneBuilder::V;
using Annotate = std::function<void(llvm::Instruction*)>;

constexpr int kTableBytes = 256, kRegisterBytes = 64;

/// The table in registers, as elements of `bits`.
struct Table {
  std::array<V, kTableBytes / kRegisterBytes> parts{};
  llvm::Type* type = nullptr;
};

Table load_table(const LaneBuilder& k, V base, unsigned bits, const Annotate& annotate) {
  Table out;
  out.type = llvm::FixedVectorType::get(k.b.getIntNTy(bits), kRegisterBytes * 8 / bits);
  for (size_t r = 0; r < out.parts.size(); ++r) {
    V at = k.b.CreateConstInBoundsGEP1_64(k.b.getInt8Ty(), base, r * kRegisterBytes);
    llvm::LoadInst* load = k.b.CreateAlignedLoad(out.type, at, llvm::Align(1));
    annotate(load);
    out.parts[r] = load;
  }
  return out;
}

/// The elements at `places`, of whose bits `permute` takes the low ones; the one above says in
/// which half of the table they are.
V look_up_parts(const LaneBuilder& k, const Table& table, llvm::Intrinsic::ID permute, V places) {
  const unsigned count = llvm::cast<llvm::FixedVectorType>(table.type)->getNumElements();
  std::vector<int> filled(count, -1);
  std::iota(filled.begin(), filled.begin() + k.lanes(), 0);
  places = k.b.CreateShuffleVector(places, filled);
  const auto half = [&](size_t first) {
    return k.b.CreateIntrinsic(table.type, permute,
                               {table.parts[first], places, table.parts[first + 1]});
  };
  V halves = llvm::ConstantInt::get(table.type, 2 * count);
  V is_upper =
      k.b.CreateICmpNE(k.b.CreateAnd(places, halves), llvm::Constant::getNullValue(table.type));
  V found = k.b.CreateSelect(is_upper, half(2), half(0));
  filled.resize(static_cast<size_t>(k.lanes()));
  return k.b.CreateShuffleVector(found, filled);
}

}  // namespace

bool looks_up(const Isa& isa, int64_t bytes, int lanes) {
  const int most = isa.avx512vbmi ? kRegisterBytes : kRegisterBytes / 2;
  return isa.avx512 && isa.vector_bytes == kRegisterBytes && bytes == kTableBytes && lanes > 1 &&
         lanes <= most;
}

V emit_look_up(const LaneBuilder& k, V base, V offsets, const Annotate& annotate) {
  if (k.isa().avx512vbmi) {
    return look_up_parts(k, load_table(k, base, 8, annotate),
                         llvm::Intrinsic::x86_avx512_vpermi2var_qi_512,
                         k.b.CreateTrunc(offsets, k.int_type(8)));
  }
  V places = k.b.CreateTrunc(offsets, k.int_type(16));
  V words = look_up_parts(k, load_table(k, base, 16, annotate),
                          llvm::Intrinsic::x86_avx512_vpermi2var_hi_512,
                          k.b.CreateLShr(places, k.integer(16, 1)));
  V shift = k.b.CreateShl(k.b.CreateAnd(places, k.integer(16, 1)), k.integer(16, 3));
  return k.b.CreateTrunc(k.b.CreateLShr(words, shift), k.int_type(8));
}

}  // namespace weft::cpu
