#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "schedule/leaf/rank_candidates.h"
#include "schedule/stages/block_space.h"

namespace weft {

/// The quickest kernel of blocks of stages that the target holds, among the partitions of the
/// group's last member: whole axes from the outermost one, then one in steps. Partitions are tried
/// in the order of their predictions. The first few are built and weighed, on a GPU by their
/// stages, on a CPU by their programs (cost/latency); those that cannot take less than `most_us`
/// are left. `considered` (may be null) tells what became of each. Error (kUnsupported): why none
/// is built.
Result<ScheduledKernel> compose_block(const BlockSpace& space, const Target& target,
                                      const std::string& name, std::vector<Considered>* considered,
                                      double most_us = std::numeric_limits<double>::infinity());

/// Partitions of the group whose blocks the target holds, in the order in which they are worth
/// measuring: those whose blocks are predicted to take least (FusionStitching 2018 §4.3, rows of
/// the library).
std::vector<Composition> blocks_to_measure(const BlockSpace& space, const Target& target,
                                           size_t most);

/// Whether blocks can make the members: lengths are numbers, and what a block keeps is read where
/// the program says, not where data do.
Status check_members(const BlockSpace& space);

/// The kernel as it was composed: nothing is chosen again. Error (kInvalidInput): what does not fit
/// the group.
Result<ScheduledKernel> build_as_composed(const BlockSpace& space, const Composition& composition,
                                          const Target& target, const std::string& name);

}  // namespace weft
