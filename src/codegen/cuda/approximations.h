#pragma once

#include <vector>

#include "kernel/kernel_function.h"

namespace weft {

/// Where a kernel's text may take the machine's approximations of float32 functions, which are off
/// by some 2^-22 of the value (2^-24 |x| more for exp), because 16 bits are off by 2^-11 or more:
/// - exponentials and logistic functions of which nothing but 16-bit floats are made, through
///   products and choices, which keep a relative error: x / (1 + exp(-x)) rounded to f16;
/// - exp(x) of x <= 0 beside units that multiply 16-bit floats.
class Approximations {
 public:
  explicit Approximations(const KernelFunction& kernel);
  /// Of an instruction kApply of float32.
  bool hold(const KernelInstruction& in) const;

 private:
  void follow(const KernelFunction& kernel, const KernelBlock& block);
  void note(const KernelFunction& kernel, const KernelInstruction& in);

  std::vector<bool> rounded_;  ///< by register: 16-bit floats alone are made of it
  bool by_halves_ = false;     ///< units multiply 16-bit floats
};

}  // namespace weft
