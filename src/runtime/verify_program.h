#pragma once

#include <cstdint>
#include <vector>

#include "runtime/program.h"
#include "support/result.h"

namespace weft {

/// How deep `if` and `loop` steps may stand in each other.
inline constexpr int kMaxStepDepth = 64;

/// Checks all that the runtime relies on: buffers lie inside what they are parts of, indices are in
/// range, a slice is used only in its loop and stays inside its base, kernels have as many phases
/// as their launches, host operations have fitting operands, steps nest at most kMaxStepDepth deep.
/// After it, a run touches no memory outside the program's buffers except through the machine code
/// of its kernels. Programs come from files: every fault is kInvalidInput.
Status verify_program(const Program& program);

/// Facts about a verified program's loops that its execution needs.
struct LoopFacts {
  std::vector<int64_t> trips;  ///< by loop id; 0 for a while-loop
  /// By loop id: the buffers whose address depends on the loop's iteration, each after its base.
  std::vector<std::vector<int32_t>> moving;
  /// All buffers, each after those that it is a part of.
  std::vector<int32_t> order;
};
LoopFacts loop_facts(const Program& program);

}  // namespace weft
