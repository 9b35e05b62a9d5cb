#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/leaf/rank_candidates.h"
#include "schedule/stages/block_space.h"
#include "schedule/stages/chain_search.h"

namespace weft {

/// The quickest kernel, by prediction, in which blocks carry the reductions along an axis that two
/// contractions share through one loop: what the first makes a step's tile of, the second consumes,
/// so that nothing of the axis' length is kept. `considered` (may be null) tells what became of
/// each. What lies on fragments is deep and flat, since its blocks go through what is made in one
/// iteration. Error (kUnsupported): why the group is no such chain, or none is built.
Result<ScheduledKernel> compose_chain(const BlockSpace& space, const Target& target,
                                      const std::string& name, std::vector<Considered>* considered,
                                      const ChainSearch& search = {});

/// Chains of the group that the target builds, those predicted quickest first and `most` of them:
/// what is worth measuring (MCFuser, Algorithm 1, measures its best eight). Empty: it is no chain.
std::vector<Composition> chains_to_measure(const BlockSpace& space, const Target& target,
                                           size_t most);

/// The kernel as it was composed: nothing is chosen again. Error (kInvalidInput): what does not fit
/// the group.
Result<ScheduledKernel> build_composed_chain(const BlockSpace& space,
                                             const Composition& composition, const Target& target,
                                             const std::string& name);

/// What a composed chain postpones behind its loop (CarriedProgram::postponed), "y by l".
std::vector<std::string> postponed_factors(const TensorProgram& program, const Group& group,
                                           const CarriedAxis& carried, const Target& target);

/// Reductions of a composed chain whose steps end where a mask begins that is added to its terms,
/// or is finite (TermReach::assumed).
std::vector<std::string> assumed_masks(const TensorProgram& program, const Group& group,
                                       const CarriedAxis& carried, const Target& target);

}  // namespace weft
