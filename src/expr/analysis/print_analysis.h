#pragma once

#include <string>

#include "expr/analysis/dependence.h"

namespace weft {

/// What Souffle (§5.1 to 5.4) asks of a program before it is cut into subprograms, as text. Of each
/// step how it depends on what it reads and its intensity, as compute-intensive from `threshold`
/// operations per element on; of tensors with several readers the kind of reuse; of each tensor the
/// first and the last step at which it is alive. Regions follow their step, indented.
///
///     0 s: memory, 1.0 an element; x many
///     1 y: memory, 0.5 an element; x one, s one
///     reuse x: 0, 1 temporal
///     live s: 0 to 1
std::string print_analysis(const TensorProgram& program, double threshold = kComputeIntensive);

}  // namespace weft
