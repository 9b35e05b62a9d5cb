#pragma once

#include "solver/integer_program.h"

namespace weft {

/// The program as a whole, by branch and bound with the library CBC (see solve).
Result<IntegerSolution> solve_by_cbc(const IntegerProgram& program, int64_t most_nodes);

}  // namespace weft
