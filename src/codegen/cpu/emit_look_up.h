#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "codegen/cpu/lane_builder.h"

namespace weft::cpu {

/// Whether `lanes` places of a buffer of so many bytes can be looked up in registers: with AVX-512,
/// those of a table of 256.
bool looks_up(const Isa& isa, int64_t bytes, int lanes);

/// The bytes at base + offsets[l], all within a table that looks_up takes; `offsets` in i64. Two
/// vpermi2b with AVX512_VBMI, else two vpermi2w of which one half is taken. `annotate` is called
/// with every load.
llvm::Value* emit_look_up(const LaneBuilder& k, llvm::Value* base, llvm::Value* offsets,
                          const std::function<void(llvm::Instruction*)>& annotate);

/// By lane the entry, of the vector's `type`, at the low four bits of `places` (i32): of 16 lanes
/// one vpermps of AVX-512, of 8 lanes one vpermi2ps, or two vpermps of AVX2 of which one is taken.
llvm::Value* emit_look_up(const LaneBuilder& k, llvm::Value* places,
                          const std::vector<int32_t>& entries, llvm::Type* type);

}  // namespace weft::cpu
