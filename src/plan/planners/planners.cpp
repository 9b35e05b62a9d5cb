#include "plan/planners/planners.h"

#include "plan/planners/partitions.h"

#include <algorithm>

namespace weft {

namespace {

constexpr CompositionKinds kLeaves = {.leaf = true, .chain = true},
                           kLeavesAndBlocks = {.leaf = true, .block = true, .chain = true},
                           kOfCpus = {.leaf = true, .block = true, .grid = true, .chain = true},
                           kLeavesAndGrids = {.leaf = true, .grid = true, .recur = true},
                           kAllKinds = {.leaf = true,
                                        .block = true,
                                        .grid = true,
                                        .chain = true,
                                        .recur = true,
                                        .cluster = true};

/// Patterns of a program in which little repeats are many, and blocks of stages are asked by
/// building them: beyond this size a second plan takes seconds.
constexpr size_t kMostSteps = 5000;
constexpr Alternative kAlternatives[] = {
    {.planner = "greedy", .compositions = kLeaves},
    {.planner = "dp", .compositions = kLeaves, .most_steps = kMostSteps},
    {.planner = "auto", .compositions = kLeaves, .most_steps = kMostSteps},
    {.planner = "auto", .compositions = kLeavesAndBlocks, .most_steps = kMostSteps},
    {.planner = "dp", .compositions = kLeavesAndBlocks, .most_steps = kMostSteps},
    {.planner = "xla", .compositions = kLeaves, .most_steps = kMostSteps},
    {.planner = "none", .compositions = kLeaves},
};

/// A block that joins two independent chains is quicker than its parts, and makes one chain wait
/// for the other: their launches are no longer shared. Only whole plans show that. Patterns find
/// what no walk along edges does: a value that several readers share, with all of them.
constexpr Alternative kWithAndWithoutBlocks[] = {
    {.planner = "auto", .compositions = kLeavesAndBlocks, .most_steps = kMostSteps},
    {.planner = "auto", .compositions = kLeaves},
    {.planner = "dp", .compositions = kLeaves, .most_steps = kMostSteps},
};

constexpr Planner kPlanners[] = {
    {.name = "none", .help = "every expression a kernel of its own", .partition = partition_none},
    {.name = "xla",
     .help =
         "XLA's rules: thread composition, producers made again by each reader, several outputs",
     .partition = partition_xla},
    {.name = "greedy",
     .help = "walks the edges and merges where one kernel is predicted to be faster",
     .partition = partition_greedy,
     .merges_products = true,
     .composes_arithmetic = true,
     .unmerges_for_arena = true,
     .packs_launches = true},
    {.name = "span",
     .help = "layers of the critical path, each taking what it depends on up to a library call",
     .partition = partition_span,
     .merges_products = true,
     .composes_arithmetic = true,
     .unmerges_for_arena = true,
     .packs_launches = true},
    {.name = "dp",
     .help = "the best patterns that begin at each expression, then a beam over sets of them",
     .partition = partition_dp,
     .merges_products = true,
     .composes_arithmetic = true,
     .unmerges_for_arena = true,
     .packs_launches = true},
    {.name = "ilp",
     .help = "patterns by substitution and exploration, the best set by an integer program",
     .partition = partition_ilp,
     .merges_products = true,
     .composes_arithmetic = true,
     .unmerges_for_arena = true,
     .packs_launches = true},
    {.name = "chain",
     .help =
         "chains of contractions in one kernel where memory bounds them or that is quicker, the "
         "rest as greedy",
     .partition = partition_chain,
     .merges_products = true,
     .composes_arithmetic = true,
     .unmerges_for_arena = true,
     .packs_launches = true},
    {.name = "subprogram",
     .help = "as auto, kernels one after another in one launch, with barriers of the grid between, "
             "on GPUs as long as all tiles of a product are on the device at once",
     .partition = partition_auto,
     .alternatives_of_gpus = kWithAndWithoutBlocks,
     .compositions = kOfCpus,
     .compositions_of_gpus = kAllKinds,
     .merges_products = true,
     .composes_arithmetic = true,
     .packs_launches = true,
     .joins_launches = true},
    {.name = "best",
     .help = "of the plans of the others the one that is predicted to take least",
     .alternatives = kAlternatives,
     .alternatives_of_gpus = kAlternatives,
     .compositions = kOfCpus,
     .compositions_of_gpus = kAllKinds,
     .merges_products = true,
     .composes_arithmetic = true,
     .unmerges_for_arena = true,
     .packs_launches = true},
    {.name = "auto",
     .help =
         "the best of those that plan in milliseconds: as greedy, with blocks of stages, and with "
         "chains of contractions, on CPUs where what lies between leaves the caches",
     .partition = partition_auto,
     .alternatives_of_gpus = kWithAndWithoutBlocks,
     .compositions = kOfCpus,
     .compositions_of_gpus = kAllKinds,
     .blocks_open_lengths = false,
     .merges_products = true,
     .composes_arithmetic = true,
     .unmerges_for_arena = true,
     .packs_launches = true},
};

/// Souffle's ablation (§8.2): each step adds a transformation to the one before. One reduction a
/// kernel is what V0 has of its baseline, TVM; several of them meet on chip in V4 alone, and what a
/// block has on chip stays there for the rest of its launch (§6.5).
constexpr Planner kSouffle[] = {
    {.name = "souffle-v0",
     .help = "one reduction a kernel, with element-wise expressions around it",
     .partition = partition_one_reduction,
     .moves_into_contractions = false},
    {.name = "souffle-v1",
     .help = "and horizontal: products of one input are one, independent kernels share launches",
     .partition = partition_one_reduction,
     .merges_products = true,
     .moves_into_contractions = false,
     .packs_launches = true},
    {.name = "souffle-v2",
     .help =
         "and vertical: movement goes into products, element-wise expressions into their readers",
     .partition = partition_one_reduction,
     .merges_products = true,
     .composes_arithmetic = true,
     .packs_launches = true},
    {.name = "souffle-v3",
     .help = "and global: kernels one after another share launches, with barriers between",
     .partition = partition_one_reduction,
     .compositions_of_gpus = kLeavesAndGrids,
     .merges_products = true,
     .composes_arithmetic = true,
     .packs_launches = true,
     .joins_launches = true,
     .keeps_on_chip = false},
    {.name = "souffle-v4",
     .help = "and reuse: reductions meet on chip, in the rows of a kernel or the stages of a "
             "block, and "
             "kernels of one launch hand each other there what a block has",
     .partition = partition_auto,
     .alternatives_of_gpus = kWithAndWithoutBlocks,
     .compositions_of_gpus = kAllKinds,
     .merges_products = true,
     .composes_arithmetic = true,
     .packs_launches = true,
     .joins_launches = true},
};

}  // namespace

std::span<const Planner> souffle_planners() { return kSouffle; }

std::span<const Planner> planners() { return kPlanners; }

std::string planner_names() {
  std::string names;
  for (const Planner& planner : kPlanners) {
    const bool is_last = &planner == &kPlanners[std::size(kPlanners) - 1];
    names += (names.empty() ? "" : is_last ? " or " : ", ") + std::string(planner.name);
  }
  return names;
}

Result<const Planner*> find_planner(std::string_view name) {
  for (const std::span<const Planner> table : {planners(), souffle_planners()}) {
    const auto found = std::ranges::find(table, name, &Planner::name);
    if (found != table.end()) return &*found;
  }
  const std::string quoted = "planner '" + std::string(name) + "'";
  return invalid_input("unknown " + quoted + "; known: " + planner_names());
}

}  // namespace weft
