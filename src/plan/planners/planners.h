#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plan/planners/partitions.h"

namespace weft {

/// A plan that another planner makes, by compositions of these kinds.
struct Alternative {
  std::string_view planner;
  CompositionKinds compositions;
  size_t most_steps = SIZE_MAX;  ///< of a program, beyond which planning it so takes too long
};

/// A way to partition a program into kernels, and what goes with it.
struct Planner {
  std::string_view name;
  std::string_view help;  ///< half a line
  Result<Partition> (*partition)(const PlanningTask& task) = nullptr;
  /// Instead of a partition of its own: plans of others, of which the one that is predicted to take
  /// least is taken, for each program and region.
  std::span<const Alternative> alternatives = {};
  std::span<const Alternative> alternatives_of_gpus = {};  ///< the same where the target is a GPU
  /// Tried where the options name none.
  CompositionKinds compositions = {.leaf = true, .chain = true};
  CompositionKinds compositions_of_gpus = {.leaf = true, .chain = true};
  /// On CPUs blocks of stages are tried where lengths are open, too: most of the time that planning
  /// a new length takes.
  bool blocks_open_lengths = true;
  /// Products of one input become one before the program is planned (expr: merge_products).
  bool merges_products = false;
  /// Contractions read what was moved where it was before (expr: fold_movement).
  bool moves_into_contractions = true;
  /// Element-wise expressions go into readers that move them (expr: compose_arithmetic), and what
  /// scales a moved factor scales the sum of products (expr: scale_sums).
  bool composes_arithmetic = false;
  /// Where merged products raise the peak of the arena above that of no fusion at all, the program
  /// is planned without them, too, and the lower peak wins: what they make lives until the last of
  /// their readers.
  bool unmerges_for_arena = false;
  /// Independent kernels share launches (pack_independent).
  bool packs_launches = false;
  /// Of the plans that it compares those with grids are taken, also where they are hardly quicker.
  bool joins_launches = false;
  /// What a block of a launch of several kernels has on chip stays there for later ones.
  bool keeps_on_chip = true;
};

/// Those that exist.
std::span<const Planner> planners();

/// Souffle's ablation V0 to V4 (§8.2), which find_planner knows, too: they are for comparing.
std::span<const Planner> souffle_planners();

/// The names of planners(), as a sentence has them: "none, xla, greedy, span, dp, ilp, chain,
/// subprogram, best or auto".
std::string planner_names();

/// kInvalidInput for any other name.
Result<const Planner*> find_planner(std::string_view name);

}  // namespace weft
