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

V emit_look_up(const LaneBuilder& k, V places, const std::vector<int32_t>& entries,
               llvm::Type* type) {
  const std::vector<uint32_t> bits(entries.begin(), entries.end());
  const size_t half = bits.size() / 2;
  llvm::Type* element = type->getScalarType();
  const auto table = [&](size_t first, size_t count) {
    const llvm::ArrayRef<uint32_t> of(bits.data() + first, count);
    return element->isFloatTy() ? llvm::ConstantDataVector::getFP(element, of)
                                : llvm::ConstantDataVector::get(k.b.getContext(), of);
  };
  const auto in_type = [&](V found) { return k.b.CreateBitCast(found, type); };
  if (k.isa().avx512 && k.lanes() == 16 && k.isa().vector_bytes == kRegisterBytes) {
    const auto permute = element->isFloatTy() ? llvm::Intrinsic::x86_avx512_permvar_sf_512
                                              : llvm::Intrinsic::x86_avx512_permvar_si_512;
    return k.b.CreateIntrinsic(type, permute, {table(0, 16), places});
  }
  llvm::Type* floats = llvm::FixedVectorType::get(k.b.getFloatTy(), 8);
  const auto as_floats = [&](V part) { return k.b.CreateBitCast(part, floats); };
  if (k.lanes() == 8 && k.isa().avx512) {
    return in_type(
        k.b.CreateIntrinsic(floats, llvm::Intrinsic::x86_avx512_vpermi2var_ps_256,
                            {as_floats(table(0, half)), places, as_floats(table(half, half))}));
  }
  if (k.lanes() == 8 && k.isa().avx2) {
    const auto look_up = [&](size_t first) {
      return k.b.CreateIntrinsic(floats, llvm::Intrinsic::x86_avx2_permps,
                                 {as_floats(table(first, half)), places});
    };
    V sign = k.b.CreateShl(places, k.integer(32, 28));  // what a blend looks at
    V is_upper = k.b.CreateICmpSLT(sign, k.integer(32, 0));
    return in_type(k.b.CreateSelect(is_upper, look_up(half), look_up(0)));
  }
  V whole = table(0, bits.size());
  V found = llvm::PoisonValue::get(type);
  for (int l = 0; l < k.lanes(); ++l) {
    V place = k.lanes() == 1 ? places : k.b.CreateExtractElement(places, static_cast<uint64_t>(l));
    V entry = k.b.CreateExtractElement(whole, k.b.CreateAnd(place, bits.size() - 1));
    if (k.lanes() == 1) return entry;
    found = k.b.CreateInsertElement(found, entry, static_cast<uint64_t>(l));
  }
  return found;
}

}  // namespace weft::cpu
