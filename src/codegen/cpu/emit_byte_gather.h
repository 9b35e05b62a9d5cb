#pragma once

#include <cstdint>
#include <functional>

#include "codegen/cpu/lane_builder.h"

namespace weft::cpu {

/// Whether emit_byte_gather can gather `lanes` bytes from a buffer of so many.
bool gathers_bytes(const Isa& isa, int64_t bytes, int lanes);

/// The bytes at base + offsets[l], all within a buffer of `bytes`; `offsets` in i64. No instruction
/// gathers bytes. A table of 256 is looked up in four registers (AVX512_VBMI: vpermi2b); elsewhere
/// the words around them are gathered. `annotate` is called with every access.
llvm::Value* emit_byte_gather(const LaneBuilder& k, llvm::Value* base, int64_t bytes,
                              llvm::Value* offsets,
                              const std::function<void(llvm::Instruction*)>& annotate);

}  // namespace weft::cpu
