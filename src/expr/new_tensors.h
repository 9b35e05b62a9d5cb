#pragma once

#include <set>
#include <string>

#include "expr/tensor_program.h"

namespace weft {

/// Adds tensors to a program, each under a name that no other has.
class NewTensors {
 public:
  explicit NewTensors(TensorProgram& program) : program_(program) {}
  /// `base`, or `base_1`, … where that is taken. The caller gives constants their value.
  TensorId add(const std::string& base, TensorType type, Tensor::Kind kind);

 private:
  TensorProgram& program_;
  std::set<std::string> names_;  ///< of the program; filled when the first tensor is added
};

}  // namespace weft
