#pragma once

#include <string>
#include <vector>

#include "schedule/leaf/rank_candidates.h"
#include "schedule/stages/chain_axes.h"

namespace weft {

/// The chain on the fragments of a GPU's blocks that is predicted to be quickest: rows and steps,
/// warps, stages, and where a deep or wide chain asks for it steps of the depth and parts of what
/// is made. Those predicted best are built until one fits the target. Error (kUnsupported): why
/// none is built.
Result<ScheduledKernel> compose_fragments(const BlockSpace& whole, const BlockSpace& steps,
                                          const SharedAxis& shared, const ChainAxes& axes,
                                          const Target& target, const std::string& name,
                                          std::vector<Considered>* considered);

/// Up to `most` chains on fragments that the target builds, those predicted quickest first.
std::vector<Composition> fragments_to_measure(const BlockSpace& whole, const BlockSpace& steps,
                                              const SharedAxis& shared, const ChainAxes& axes,
                                              const Target& target, const std::string& name,
                                              size_t most);

/// The kernel as it was composed. Error (kInvalidInput): what does not fit the group.
Result<ScheduledKernel> build_composed_fragments(const BlockSpace& whole, const BlockSpace& steps,
                                                 const SharedAxis& shared, const ChainAxes& axes,
                                                 const Composition& composition,
                                                 const Target& target, const std::string& name);

}  // namespace weft
