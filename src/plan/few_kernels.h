#pragma once

namespace weft {

/// What a planner that is asked for few kernels may take longer for them, as a part of what more
/// of them take: Souffle's subprograms end where blocks do not fit (§5), and are guarded against
/// slowdowns alone.
inline constexpr double kFewMayLose = 0.8;

}  // namespace weft
