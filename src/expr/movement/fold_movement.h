#pragma once

#include "expr/tensor_program.h"

namespace weft {

struct MovementOptions {
  int max_branches = 8;
  /// Without it contractions read moved intermediates from memory; constants and inputs they read
  /// through the map.
  bool into_contractions = true;
  /// Two pieces around the end of an axis become one read (join_pieces), which contractions take.
  /// What copies whole tiles by rows loses nothing by it; loops over elements would divide.
  bool joins_pieces = false;
};

/// Vertical composition (Souffle §5.2, MECHANISMS.md): substitutes into its readers every
/// expression that only moves elements (its body is a read under a map, a predicate or a concat of
/// such), so that no such expression remains unless it is an output of the program, feeds an opaque
/// step, or its composition was refused (a growing concat chain: bounded by `max_branches`).
bool fold_movement(TensorProgram& program, const MovementOptions& options = {});

}  // namespace weft
