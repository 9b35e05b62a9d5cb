#pragma once

#include <vector>

#include "expr/tensor_program.h"

namespace weft {

/// Expressions that share a kernel, in program order, and which of their tensors must reach memory.
struct Group {
  std::vector<ExprId> exprs;
  std::vector<TensorId> outputs;
};

}  // namespace weft
