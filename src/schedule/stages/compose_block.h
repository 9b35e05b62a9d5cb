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
/// in the order of their predictions. On a GPU the first few are built and weighed by their stages;
/// those that cannot take less than `most_us` are left. `considered` (may be null) tells what
/// became of each. Error (kUnsupported): why none is built.
Result<ScheduledKernel> compose_block(const BlockSpace& space, const Target& target,
                                      const std::string& name, std::vector<Considered>* considered,
                                      double most_us = std::numeric_limits<double>::infinity());

/// What the group would take as blocks whose values are handed on in registers: what a leaf is to
/// be compared with blocks of stages by. Nothing where it cannot be cut into blocks.
std::optional<double> blocks_of_leaf_us(const BlockSpace& space, const Target& target);

/// Whether blocks can make the members: lengths are numbers, and what a block keeps is read where
/// the program says, not where data do.
Status check_members(const BlockSpace& space);

/// The kernel as it was composed: nothing is chosen again. Error (kInvalidInput): what does not fit
/// the group.
Result<ScheduledKernel> build_as_composed(const BlockSpace& space, const Composition& composition,
                                          const Target& target, const std::string& name);

}  // namespace weft
