#pragma once

#include <vector>

#include "choice/choice.h"
#include "group/group_space.h"
#include "target/target.h"

namespace weft {

/// Elements of one chunk when a long axis is cut for the threads.
inline constexpr int64_t kStitchChunk = 4096;

/// The vector axis, the rows that are taken together and the values that are kept for later sweeps,
/// for a group that holds_common_rows.
SweepChoice choose_sweep(const GroupSpace& space, const Target& target);

/// Others for the same group that measuring may prefer: more or fewer vectors and rows at a time,
/// and nothing kept for later sweeps.
std::vector<SweepChoice> other_sweeps(const GroupSpace& space, const Target& target);

/// The output with most axes, whose strides order the loops; of several the last.
int main_output(const GroupSpace& space);

/// Whether the value of a member differs along the inner axes: it lives inside the sweeps.
bool is_value_of_row(const GroupSpace& space, const SweepChoice& choice, int position);

}  // namespace weft
