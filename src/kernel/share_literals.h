#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/kernel_function.h"

namespace weft {

/// A kernel of a CPU, and the arguments of its launches.
struct KernelOfLaunches {
  KernelFunction* function = nullptr;
  std::vector<int64_t>* arguments = nullptr;
};

/// Kernels that differ in numbers alone become one, which takes these as arguments of its launches:
/// layers of a quantised model have scales and zero points of their own, and would be compiled one
/// by one. Of each kernel's launches `%2: f32x8 = const 0.25` is
///     %7: i64 = argument 0                  the bits of 0.25
///     %8: i32 = apply convert %7
///     %9: f32 = apply bitcast %8
///     %2: f32x8 = broadcast %9
/// and an integer in float32, which all of them have there, a converted i16, so that code may count
/// on it. Numbers that are the same in all of them stay, and so do those of which the code hangs on
/// the value: indices, exponents, shifts, what loops begin with.
///
/// Requires: verified kernels of a CPU. Establishes the same. Returns how many take arguments now.
int share_literals(std::span<const KernelOfLaunches> kernels);

}  // namespace weft
