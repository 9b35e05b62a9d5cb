#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "expr/tensor_program.h"

namespace weft {

inline constexpr int64_t kWindowPlaces = 3;  ///< of a window along one axis
inline constexpr int64_t kWindowTile = 2;    ///< results to a tile along it

/// A window along an axis of the result: the other factor is read at `result` + `place`.
struct WindowAlong {
  int result = -1;  ///< variable of the result
  int place = -1;   ///< variable of the sum
};

/// A variable, or one digit of two: `step` times 0, 1, ... extent - 1.
struct VariableDigit {
  int var = -1;
  int64_t extent = 1;
  int64_t step = 1;
};

/// A sum over windows, its variables by what they run over.
struct WindowsOfSum {
  ScalarRef source;     ///< the factor that varies, with its padding
  ScalarRef weights;    ///< the read of the other
  bool varies = false;  ///< it is no constant
  std::vector<WindowAlong> axes;
  std::vector<VariableDigit> rows;     ///< of the result, along which the source is read
  std::vector<VariableDigit> groups;   ///< of the result, along which both are read
  std::vector<VariableDigit> columns;  ///< of the result, along which the weights are read
  std::vector<VariableDigit> inputs;   ///< of the sum, but for the windows'

  /// The window along a variable of the result, or -1.
  int axis_of(int result) const;
};

/// The windows of a contraction that sums windows of three places, along one axis or two that are
/// not open, of one tensor of floats of at most 32 bits, padded by indices alone, multiplied in
/// float32 by weights whose indices are variables, those of weights that vary also with a sign and
/// a number. The result's variables are rows, columns and groups; of one that counts through the
/// columns of several groups the source takes the quotient.
std::optional<WindowsOfSum> windows_of_sum(const TensorProgram& program, const TensorExpr& e);

}  // namespace weft
