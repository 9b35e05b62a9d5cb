#pragma once

#include <cstdint>
#include <vector>

#include "support/result.h"

namespace weft {

/// Choose among columns so that the sum of their gains is largest: binary variables, and rows that
/// allow at most so many of some of them.
struct IntegerProgram {
  std::vector<double> gains;  ///< by column
  struct Row {
    std::vector<int> columns;
    int most = 1;
  };
  std::vector<Row> rows;
};

struct IntegerSolution {
  std::vector<bool> chosen;  ///< by column
  double gain = 0;
  double bound = 0;  ///< no choice gains more
  bool optimal = false;
};

/// Part by part: columns that no rows hold together are chosen apart, and of equal parts, as layers
/// make them, one is solved. Each by branch and bound with the library CBC, which is looked for
/// while the program runs, in at most `most_nodes` nodes. Deterministic: no limit is a time. Error
/// (kMissingDevice): there is no such library.
Result<IntegerSolution> solve(const IntegerProgram& program, int64_t most_nodes);

}  // namespace weft
