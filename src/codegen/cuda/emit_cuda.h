#pragma once

#include <string>

#include "kernel/kernel_function.h"

namespace weft {

/// A kernel as CUDA C++ against the prelude (codegen/cuda/prelude.h), and how it is launched.
struct CudaKernel {
  std::string name;  ///< of the entry point: a C identifier made from the kernel's name
  std::string text;
  int64_t blocks = 1;
  int32_t threads = 32;
  int32_t cluster = 1;        ///< blocks of a cluster: the launch asks for them
  int64_t shared_bytes = 0;   ///< dynamic
  bool grid_barrier = false;  ///< of more blocks than one cluster: cooperative launch
  int32_t blocks_per_sm = 1;  ///< stated as a launch bound
  bool shares = false;        ///< has parts that are functions
};

/// Parameters of the entry point: a pointer for each buffer that is not shared, in order, then the
/// arguments as s64, then, with a grid barrier, a u32* that is zero before the first launch.
///
/// Requires a verified GPU kernel without scratch buffers. Prints what it is given: registers
/// become variables, vectors one variable a lane; an access is as wide as alignment is proven, at
/// most 16 bytes; indices that provably fit are 32 bits wide. `shares`: equal parts are functions
/// (share_parts).
CudaKernel emit_cuda(const KernelFunction& kernel, bool shares = true);

}  // namespace weft
