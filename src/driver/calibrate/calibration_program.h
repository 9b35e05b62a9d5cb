#pragma once

#include <cstdint>

#include "kernel/kernel_function.h"
#include "runtime/program.h"

namespace weft {

/// A program that runs `kernel` from its float32 buffer 0, the input, to its float32 buffer 1, the
/// output, `steps` times over; with `barriers`, each after all threads have finished the one
/// before.
Program calibration_program(const KernelFunction& kernel, const KernelImage& image, int64_t steps,
                            bool barriers);

}  // namespace weft
