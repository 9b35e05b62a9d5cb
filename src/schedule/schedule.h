#pragma once

#include <optional>
#include <string>
#include <vector>

#include "group/group_space.h"
#include "schedule/leaf/rank_candidates.h"
#include "schedule/leaf/template_table.h"
#include "schedule/stages/chain_search.h"
#include "schedule/writer/scheduled_kernel.h"
#include "schedule/writer/template.h"

namespace weft {

/// Whether the group can be one kernel: a leaf, or blocks of stages. The reason names the
/// expressions and the axes that do not agree. What is allowed here, schedule_group builds.
Decision can_schedule(const TensorProgram& program, const Group& group, const Target& target);

/// A group as blocks of stages, and what that is predicted to take.
struct PredictedBlock {
  double microseconds = 0;
  Composition composition;
};

/// Error (kUnsupported): why the group is none, or takes `most_us` or more. Names are numbers of
/// the key.
Result<PredictedBlock> predicted_block(const TensorProgram& program, const Group& group,
                                       const GroupKey& key, const Target& target, double most_us);

/// What the group takes by the model that a GPU's product is tiled by; nothing where it holds no
/// product that goes through tiles.
std::optional<double> predicted_product_us(const TensorProgram& program, const Group& group,
                                           const Target& target);

/// What the group takes as a library call of a target that names the library; nothing where it is
/// none.
std::optional<double> predicted_library_us(const TensorProgram& program, const Group& group,
                                           const Target& target);

/// Whether the template that reduces rows along themselves and across each other holds the group:
/// then one kernel reads the rows once, though its reductions hand each other nothing.
Decision can_reduce_both_ways(const GroupSpace& space, const Target& target);

/// The best tile program among the templates' candidates; where no template holds the group, of
/// blocks of stages. `measured` is what was measured of the group's compositions, which takes the
/// place of predictions (rank_candidates). Error (kUnsupported): neither does, and why.
Result<ScheduledKernel> schedule_group(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name,
                                       std::span<const MeasuredComposition> measured = {});

/// The same of templates alone; with `key` for all groups of it (group/group_space.h). `known` (may
/// be null) are the leaves of the program.
Result<ScheduledKernel> schedule_leaf(const TensorProgram& program, const Group& group,
                                      const Target& target, const std::string& name,
                                      const GroupKey* key = nullptr,
                                      const PhysicalLeaves* known = nullptr,
                                      std::span<const MeasuredComposition> measured = {});

/// The best tile program in which blocks carry the group's reductions along an axis that its
/// contractions share (schedule/stages/compose_chain). Error
/// (kUnsupported): the group is no such chain, and why.
Result<ScheduledKernel> schedule_chain(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name,
                                       const ChainSearch& search = {});

/// What the group's kernel takes as a leaf, by its tile program (cost/latency, cost/gpu_latency) or
/// the model of a GPU's products; nothing where there is none.
std::optional<double> predicted_built_us(const TensorProgram& program, const Group& group,
                                         const Target& target);

/// Puts the traffic of the kernel's tile program in the place of what the cost model says about its
/// bytes, and beside it what is read of each parameter. Microseconds stay: they are those by which
/// kernels were chosen.
void estimate_traffic(ScheduledKernel& kernel);

/// The tile program of a group as it was composed, for the same program or one that binds the
/// model's dimensions otherwise: nothing is chosen again. Error (kInvalidInput): what does not fit.
Result<ScheduledKernel> build_composition(const TensorProgram& program, const Group& group,
                                          const Composition& composition, const Target& target,
                                          const std::string& name);

/// What was considered for a group, in the order of the templates and of their candidates. Where
/// none holds it, chains and blocks of stages; of these, what was chosen is of the kind `composed`.
Result<std::vector<Considered>> considered_candidates(
    const TensorProgram& program, const Group& group, Composition::Kind composed,
    const Target& target, std::span<const MeasuredComposition> measured);

/// Other leaves, chains or blocks of stages of the group that may be quicker than the one it is
/// made as, in the order in which they are worth measuring; empty where it is none of these. Not
/// each of them builds.
std::vector<Composition> others_to_measure(const TensorProgram& program, const Group& group,
                                           const Composition& present, const Target& target);

}  // namespace weft
