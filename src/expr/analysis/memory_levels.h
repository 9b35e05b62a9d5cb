#pragma once

#include <cstdint>
#include <vector>

#include "expr/tensor_program.h"

namespace weft {

/// What follows what in a plan whose contractions are library calls of their own
/// (--compute-as-calls). A kernel cannot hold what stands in front of a call and what stands behind
/// it: the call would have to run inside. So expressions on a path fall into levels, with calls and
/// opaque steps between, and each level takes a kernel. As one kernel may hold all that is on a
/// level, whether or not it hands each other anything, the highest level is the least number of
/// kernels, and no smaller bound follows from the dependences alone.
struct MemoryLevels {
  /// By step: the kernels up to it on any path, itself included. 0 of what no kernel comes before.
  std::vector<int64_t> of_step;
  /// Of the program and of the regions in it: no plan has fewer kernels that memory bounds.
  int64_t least = 0;
};

/// Calls may read where movement finds what they read: reads at other places, joins, and numbers
/// that no tensor changes take no level. Loops whose bodies hold neither contractions nor opaque
/// steps may be one kernel, and share it. Bodies that hold some, branches, and while loops count
/// for themselves.
MemoryLevels memory_levels(const TensorProgram& program);

}  // namespace weft
