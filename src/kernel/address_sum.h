#pragma once

#include <cstdint>
#include <map>

#include "kernel/definitions.h"

namespace weft {

/// A sum of registers times numbers, and a number.
struct AddressSum {
  std::map<Reg, int64_t> terms;
  int64_t constant = 0;
};

/// The register as a sum; registers in `at` are what that says.
///     %5 = apply mul %1, 64; %6 = apply add %5, 8  ->  64 %1 + 8
AddressSum address_sum(const Definitions& definitions, Reg r,
                       const std::map<Reg, AddressSum>& at = {});

/// An element of a buffer.
struct BufferPlace {
  int32_t buffer = 0;
  AddressSum at;
};

/// Whether both are known to be less than a cache line apart.
bool in_one_line(const KernelFunction& kernel, const BufferPlace& a, const BufferPlace& b);

}  // namespace weft
