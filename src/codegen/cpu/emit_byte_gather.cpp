#include "codegen/cpu/emit_byte_gather.h"

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

/// Each vpermi2b looks up in half the table; the highest bit of a place says in which.
V emit_permuted(const LaneBuilder& k, V base, V offsets, const Annotate& annotate) {
  const LaneBuilder bytes = k.with_lanes(kRegisterBytes);
  llvm::Type* type = bytes.wide(k.b.getInt8Ty());
  std::array<V, kTableBytes / kRegisterBytes> table{};
  for (size_t r = 0; r < table.size(); ++r) {
    V at = k.b.CreateConstInBoundsGEP1_64(k.b.getInt8Ty(), base, r * kRegisterBytes);
    llvm::LoadInst* load = k.b.CreateAlignedLoad(type, at, llvm::Align(1));
    annotate(load);
    table[r] = load;
  }
  std::vector<int> filled(kRegisterBytes, -1);
  std::iota(filled.begin(), filled.begin() + k.lanes(), 0);
  V places = k.b.CreateShuffleVector(k.b.CreateTrunc(offsets, k.wide(k.b.getInt8Ty())), filled);
  const auto half = [&](V low, V high) {
    return k.b.CreateIntrinsic(type, llvm::Intrinsic::x86_avx512_vpermi2var_qi_512,
                               {low, places, high});
  };
  V is_upper = k.b.CreateICmpSLT(places, llvm::Constant::getNullValue(type));
  V found = k.b.CreateSelect(is_upper, half(table[2], table[3]), half(table[0], table[1]));
  filled.resize(static_cast<size_t>(k.lanes()));
  return k.b.CreateShuffleVector(found, filled);
}

/// From each aligned word, counted from `base`, its byte.
V emit_from_words(const LaneBuilder& k, V base, V offsets, const Annotate& annotate) {
  V narrow = k.b.CreateTrunc(offsets, k.int_type(32));
  V words = k.b.CreateLShr(narrow, k.integer(32, 2));
  llvm::CallInst* gathered = k.b.CreateMaskedGather(
      k.int_type(32), k.b.CreateGEP(k.b.getInt32Ty(), base, words), llvm::Align(1));
  annotate(gathered);
  V shift = k.b.CreateShl(k.b.CreateAnd(narrow, k.integer(32, 3)), k.integer(32, 3));
  return k.b.CreateTrunc(k.b.CreateLShr(gathered, shift), k.wide(k.b.getInt8Ty()));
}

bool permutes(const Isa& isa, int64_t bytes, int lanes) {
  return isa.avx512vbmi && isa.vector_bytes == kRegisterBytes && bytes == kTableBytes &&
         lanes <= kRegisterBytes;
}

}  // namespace

bool gathers_bytes(const Isa& isa, int64_t bytes, int lanes) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;  // places are narrowed to 32 bits
  if (lanes == 1 || bytes < 1 || bytes > kMostBytes) return false;
  return permutes(isa, bytes, lanes) || (isa.avx2 && bytes % 4 == 0);
}

V emit_byte_gather(const LaneBuilder& k, V base, int64_t bytes, V offsets,
                   const Annotate& annotate) {
  return permutes(k.isa(), bytes, k.lanes()) ? emit_permuted(k, base, offsets, annotate)
                                             : emit_from_words(k, base, offsets, annotate);
}

}  // namespace weft::cpu
