#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Removes expressions and tensors that nothing uses.
bool remove_dead_expressions(TensorProgram& program);

}  // namespace weft
