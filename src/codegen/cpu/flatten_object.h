#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/result.h"

namespace weft::cpu {

/// Code and constants of an object file in one run of bytes, relocations applied.
struct FlatObject {
  std::vector<std::byte> bytes;
  std::vector<uint64_t> entries;  ///< offset of each symbol asked for
};

/// Lays out the allocated read-only sections of an x86-64 ELF object one after another and applies
/// the PC-relative relocations between them, so that the bytes run wherever they are copied to a
/// multiple of 64.
///     .text 0..511, .rodata.cst4 512..575; `movss 0(%rip)` at 16 -> 512 - 20
/// kInternal for anything else: a writable section, an absolute address, a symbol from outside (a
/// call of libm, memcpy, …).
Result<FlatObject> flatten_object(std::string_view object, std::span<const std::string> symbols);

}  // namespace weft::cpu
