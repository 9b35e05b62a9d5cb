#pragma once

#include <cstdint>
#include <vector>

#include "tile/tile_program.h"

namespace weft {

/// What a parameter of one iteration is to all of them.
struct RepeatedParameter {
  enum class Kind : uint8_t {
    kWhole,    ///< the same in each iteration
    kSlice,    ///< of a tensor with an axis more in front, by iteration
    kCarried,  ///< what the iteration before has stored in the parameter that is its next
    kNext,     ///< what the next iteration reads as carried
    kPassed,   ///< stored and read within the iteration alone
  };
  Kind kind = Kind::kWhole;
  bool reversed = false;  ///< kSlice: the last one first
  int32_t carry = -1;     ///< kCarried, kNext: its number
};

/// A recurrence of `trips` iterations of a program, whose nests run in order in each of them
/// (Souffle §6.3: a recurrent subprogram in one kernel; PersistentRNN, ICML'16).
///     (x, h, out n, out y) { A }
///     ->  (h, x, out y, out n) { workspace n_kept; first = h; seq t { views …; A } n = end }
/// A slice becomes a view of its place in the whole. What is carried lies in two places of a
/// workspace in turns, is copied there before the first iteration and from there behind the last.
/// `parameter_of[i]`: the number of parameter i of `once` among those of the result; of kPassed -1.
///
/// Requires: a GPU program whose body is nests, of constant row-major shapes in what is no kWhole;
/// each carry has one kNext; trips > 0.
struct RepeatedProgram {
  TileProgram program;
  std::vector<int32_t> parameter_of;
};
RepeatedProgram repeat_program(const TileProgram& once,
                               const std::vector<RepeatedParameter>& parameters, int64_t trips);

}  // namespace weft
