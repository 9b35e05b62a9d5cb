#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "expr/tensor_program.h"
#include "io/onnx_case.h"
#include "plan/fusion_plan.h"

namespace weft {

/// The level at which a kernel that computes something wrong goes wrong.
enum class DifferingLevel : uint8_t {
  kTileProgram,       ///< its tile program already means something else
  kBelowTileProgram,  ///< that means the same: what was lowered or generated from it does not
  kUnknown,           ///< the tile program is too large to be evaluated, or cannot be
};
/// "the kernel's tile program", …
std::string_view phrase(DifferingLevel level);

/// Evaluates the kernel's tile program on what it reads and compares what it stores with `values`:
/// by tensor of the program, its elements in logical order, of the declared shape; of what the
/// kernel reads and no value is given for, the program's constants are taken. Open sizes and
/// kernels of more than some ten million operations are not evaluated.
DifferingLevel level_of_difference(const TensorProgram& program, const PlannedKernel& kernel,
                                   const std::map<TensorId, HostTensor>& values,
                                   Tolerance tolerance);

}  // namespace weft
