#pragma once

#include "driver/compilation.h"

namespace weft {

/// The same graph on its way once more, as it was asked for.
Compilation begun_again(const Compilation& c);

/// Where a GPU's loops may run in one launch: plans the other forms of the graph's loops as well.
/// What repeats becomes a loop, loops above each other one, loops beside each other one. That which
/// is predicted to be the quickest stays, should it take 5% less; of a planner that shares launches
/// wherever it can, any less.
///
/// Requires: a plan.
Status plan_loop_forms(Compilation& c);

/// The graph and its tensor program in the forms that the options' plan text is of.
Status take_given_forms(Compilation& c);

}  // namespace weft
