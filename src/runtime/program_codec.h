#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/program.h"
#include "support/result.h"

namespace weft {

/// A constant's place in the part of a file that holds them.
struct StoredConstant {
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t offset = 0;
};

/// Programs as plain data without the constants' bytes. Kernels and constants stand in tables that
/// the programs share: those of several shapes of one model are mostly the same.
struct ProgramArchive {
  struct Entry {
    Program program;                ///< without kernels and constants
    std::vector<uint32_t> kernels;  ///< into the tables
    std::vector<uint32_t> constants;
  };
  std::vector<KernelImage> kernels;
  std::vector<StoredConstant> constants;
  std::vector<Entry> entries;
};

/// Little-endian; decode is encode's inverse. decode accepts any bytes: it takes memory in
/// proportion to them, bounds the nesting of steps, and says kInvalidInput to what encode could not
/// have written. The numbers inside are for verify_program to judge.
std::vector<std::byte> encode(const ProgramArchive& archive);
Result<ProgramArchive> decode(std::span<const std::byte> bytes);

}  // namespace weft
