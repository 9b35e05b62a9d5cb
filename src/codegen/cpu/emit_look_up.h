#pragma once

#include <cstdint>
#include <functional>

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

}  // namespace weft::cpu
