#pragma once

#include "expr/tensor_program.h"

namespace weft {

/// Makes constants that a region captures constants of the region, so that they can be packed and
/// folded there: the weights of a recurrence. Works through nested regions; the values are shared,
/// not copied.
///
/// Requires: a verified program. Establishes: no capture of an if, while or scan is a constant.
bool sink_constants(TensorProgram& program);

}  // namespace weft
