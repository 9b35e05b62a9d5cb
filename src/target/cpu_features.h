#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// What the processor says of itself, as far as the operating system supports it (a register file
/// that it does not save is not there).
struct CpuIdentity {
  std::vector<std::string> features;  ///< LLVM's names, sorted
  std::string cpu = "generic";        ///< LLVM's name of the microarchitecture
  std::string vendor;                 ///< as cpuid spells it: "GenuineIntel"
  int vector_bytes = 16;
  /// Units that retire a fused multiply-add of full width each cycle.
  int fma_units = 1;
};
CpuIdentity identify_cpu();

/// Whether a CPU of that name takes two turns for a multiplication of 64-byte vectors, and one for
/// 32 bytes on each of its two units.
bool halves_vectors(std::string_view cpu);

/// The same CPU as one whose vectors end at `bytes`.
CpuIdentity capped_to(CpuIdentity identity, int bytes);

}  // namespace weft
