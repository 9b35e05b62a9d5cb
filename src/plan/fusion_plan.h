#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "expr/tensor_program.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace weft {

struct FusionPlan;
class ClusterKernels;

/// The loop around a region whose iterations are counted: a scan. Its inputs are what it carries,
/// then the slices, then what it captures; its outputs what it carries, then slices.
struct RegionLoop {
  int64_t trips = 0;
  int64_t carries = 0, scanned = 0;
  std::vector<bool> reversed_inputs, reversed_outputs;  ///< by slice: the last one first
};
/// None where the step is no scan, or has no iterations.
std::optional<RegionLoop> loop_around(const TensorProgram& program, const OpaqueExpr& opaque);

/// A member of a launch that runs all iterations of a scan: the only kernel of its body's plan.
struct LoopMember {
  size_t member = 0;    ///< its number among the members; its group has the scan's results alone
  int32_t opaque = -1;  ///< into TensorProgram::opaques
  std::shared_ptr<FusionPlan> body;
};

/// One kernel of the plan: its expressions and the tile program chosen for them; what was costed is
/// what is emitted.
struct PlannedKernel {
  std::string name;
  Group group;
  ScheduledKernel schedule;
  bool is_compute = false;  ///< holds a dot_general or convolution of the model
  bool is_call = false;     ///< counts as a library call (PlanOptions::compute_as_calls)
  /// Of groups in one launch, side by side or one after another, `group` is the union: each on its
  /// own.
  std::vector<Group> members;
  std::string packed_because;  ///< empty unless it has members
  /// Of members one after another: what a block has on chip is read from memory again all the same.
  /// Else outputs of members that `group` lacks stay there, and are not stored.
  bool rereads = false;
  /// Of members one after another: what no member makes is asked for behind barriers all the same.
  bool waits = false;
  /// It runs all iterations of the region whose only kernel it is; its inputs and outputs are those
  /// of the whole loop.
  std::optional<RegionLoop> loop;
  /// Those of its members that are loops, in their order.
  std::vector<LoopMember> loops;
  /// Of its expressions, those that it makes again for itself: another kernel stores what they make
  /// or, where none does, holds them before.
  std::vector<ExprId> copies;
};

/// What members of a launch hand each other on chip, and do not store.
std::vector<TensorId> kept_outputs(const PlannedKernel& kernel);

/// The tile program of a kernel: of its group, or of its members in one launch. Errors
/// (kInvalidInput) say why they cannot share a launch.
Result<ScheduledKernel> schedule_kernel(const TensorProgram& program, const PlannedKernel& kernel,
                                        const Target& target);

/// The same as it was composed, without choosing anything again, and without its traffic. Errors
/// (kInvalidInput) say what does not fit the kernel.
Result<ScheduledKernel> build_kernel(const TensorProgram& program, const PlannedKernel& kernel,
                                     const Composition& composition, const Target& target);

/// Puts independent kernels of a GPU side by side in one launch, in the place of one of them behind
/// all that they read and before all that read them (FusionStitching 2019 §3.1, kernel packing):
/// those that leave most of the device idle, as long as all their blocks are on the device at once,
/// and those that memory bounds, at any size.
///
/// Requires: scheduled kernels. Establishes: an order that respects the dependences.
Status pack_independent(const TensorProgram& program, const Target& target, FusionPlan& plan);

/// Whether kernels that read each other share launches: not at all; where a launch is predicted to
/// take 5% less than its kernels apart, with loops in it by 5% of what their launches cost; or also
/// where a kernel costs no more than those that joined before it have saved.
enum class Joins : uint8_t { kNo, kWhereQuicker, kFewest };

/// What blocks of shared launches do with their memory. `keeps`: what a block has stays there for
/// later kernels; `ahead`: it asks for what no kernel of the launch makes before it waits, where
/// the grid waits.
struct LaunchMemory {
  bool keeps = true;
  bool ahead = true;
};

/// Which launches kernels that read each other may share, and by what.
struct LaunchSharing {
  Joins joins = Joins::kNo;
  bool on_grid = true;                   ///< with barriers of the grid
  ClusterKernels* on_cluster = nullptr;  ///< on the blocks of one cluster, by these; null: none
  LaunchMemory memory;
};

/// Puts kernels of a GPU one after another into one launch, in the place of the first, with
/// barriers of the grid between (Souffle §5.3: subprograms; AStitch §4.2: global stitching): those
/// that a kernel reads from and those beside it, breadth-first, as long as that is predicted to
/// save time and all tiles of each product are on the device at once. Or on the blocks of one
/// cluster, as kernels chosen for so few, with its barriers: of the two launches that begin at a
/// kernel the one that is predicted to save more. What they hand each other goes through memory,
/// and stays in the second-level cache where that holds it. What `memory` keeps stays on chip where
/// the block that has it reads it (Souffle §6.5); rows of kernels are cut into equal boxes where
/// that is predicted to save more than it costs. A scan whose iterations are one kernel joins like
/// others, and is no opaque step of the order any more.
///
/// Requires: scheduled kernels, planned regions. Establishes: an order that respects the
/// dependences.
Status join_dependent(const TensorProgram& program, const Target& target,
                      const LaunchSharing& sharing, FusionPlan& plan);

/// Puts the kernels of a scan's body into one that runs all its iterations, with a barrier of the
/// grid, or of the one cluster that its blocks form, before each of their phases (Souffle §6.3;
/// `recur`): the one that is predicted to take less. Nothing changes where they cannot
/// share one, or where it is predicted to be slower; for kWhereQuicker it has to save 5% of what
/// the launches in its place cost.
///
/// Requires: the plan of the loop's body, scheduled for a GPU.
Status repeat_region(const TensorProgram& body, const RegionLoop& loop, const Target& target,
                     const LaunchSharing& sharing, FusionPlan& plan);

/// What was decided about a tensor that one expression makes and another reads, and why.
struct EdgeDecision {
  enum class Verdict : uint8_t { kFused, kIllegal, kUnprofitable };
  int32_t producer = -1, consumer = -1;  ///< positions in TensorProgram::steps
  TensorId tensor = -1;
  Verdict verdict = Verdict::kFused;
  std::string reason;
};
std::string_view verdict_name(EdgeDecision::Verdict v);

/// How good a selection of patterns is by the gains that it was made by.
struct Optimality {
  double gain_us = 0;   ///< of the patterns that were selected
  double bound_us = 0;  ///< no selection of the candidates gains more; 0: the planner knows none
};

/// A partition of the expressions into kernels, in an order that respects every dependence.
struct FusionPlan {
  std::string planner;
  /// Products of one input stay apart, though the planner merges them.
  bool unmerged = false;
  /// Pieces that repeat became loops (rewrite/roll_loops.h), scans above each other one
  /// (rewrite/skew_scans.h), scans beside each other one (rewrite/unite_scans.h).
  bool rolled = false, skewed = false, united = false;
  /// Tensors whose sums over windows are made by minimal filtering
  /// (expr/products/minimal_filtering.h).
  std::vector<std::string> filtered;
  /// The planner's parameter of that name, where it was given: the text's expressions depend on it.
  std::optional<double> recompute;
  std::vector<PlannedKernel> kernels;
  struct Step {
    bool opaque = false;
    int32_t index = 0;  ///< into kernels or TensorProgram::opaques
  };
  std::vector<Step> order;
  std::vector<EdgeDecision> edges;
  /// Of a loop's body on a GPU: why its steps are launches of their own; empty where they are not.
  std::string steps_apart_because;
  Optimality optimality;
  /// By opaque expression, by region: the plan of the region's program. None of what is a member
  /// of a launch, which has it.
  std::vector<std::vector<std::shared_ptr<FusionPlan>>> regions;
};

using RegionPlans = std::vector<std::shared_ptr<FusionPlan>>;
/// Whether one kernel runs all iterations of the loop whose regions these are.
bool runs_whole_loop(const RegionPlans& regions);

/// What the regions of a program for `target` are planned for: slices that a loop hands to its body
/// begin where no library can read them.
Target of_region(Target target);

/// The copies of every kernel. Requires: the order of the kernels.
std::vector<std::vector<ExprId>> copies_of(const TensorProgram& program, const FusionPlan& plan);
/// Notes them in the kernels.
void note_copies(const TensorProgram& program, FusionPlan& plan);

/// Every expression in a kernel, and in further ones as their copy; every kernel and opaque step
/// once in an order that respects the dependences, a loop in the order or in a launch, every output
/// and opaque operand stored, none twice, every tile program verified; regions likewise.
Status verify_plan(const TensorProgram& program, const FusionPlan& plan);

/// Kernels and opaque steps in the order in which they run, then the edges. A kernel names its
/// composition, the tensors that it makes and, behind the arrow, those that reach memory:
///     plan auto {
///       kernel k0_y memory rows by leaf(sweep grid [0] inner [1] …): m, d, e, s, y -> y
///       kernel k1_u memory "side by side: rows | elementwise" by pack { leaf(…); leaf(…) }
///         because "…": t, u | v -> u, v
///       kernel k3_r memory rows by leaf(…): m, r copies m -> r
///       kernel k4_v memory "one after another: …" by grid { leaf(…); leaf(…) } because "…": w | v
///         -> v keeping w
///       kernel k6_w memory "one after another: …" by cluster 8 { leaf(…); leaf(…) } because "…": …
///       kernel k5_p compute "…" by grid { leaf(…); recur { leaf(…) } } because "…": p | opaque 0
///         scan -> p, h
///         region plan auto { … }
///       edge 0 -> 1 m: fused "saves a round trip through memory"
///     }
/// Behind `keeping` stands what members hand each other on chip and do not store; `rereading` in
/// front of `because` says that nothing stays there, `waiting` that nothing is loaded ahead of
/// barriers. Where a measurement decided, `measured "row
/// …"` follows the composition: the row of the performance library.
std::string print(const FusionPlan& plan, const TensorProgram& program);
/// The plan that prints as `text`, of the same program. Kernels are built as they were composed;
/// where a text leaves the composition out, or names templates that the target does not have, it is
/// chosen anew. A text edited by hand (expressions moved to another kernel) is a plan if it
/// verifies. Errors (kInvalidInput) begin with "line:column: ".
Result<FusionPlan> parse_plan(std::string_view text, const TensorProgram& program,
                              const Target& target);
/// What must be known of a plan's text before there is the program that it is of: its planner, and
/// whether products stay apart. Its kernels are empty.
Result<FusionPlan> parse_plan_header(std::string_view text);

}  // namespace weft
