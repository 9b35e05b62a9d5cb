#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "support/result.h"

namespace weft {

/// The numbers of the papers' planners. The defaults are the papers', as far as these give any.
/// FS18, FS19 and FS21 are FusionStitching of 2018, 2019 and 2021.
struct PlannerParameters {
  int64_t top = 3;   ///< candidates an expression (FS21 §5.2: k)
  int64_t beam = 3;  ///< sets of patterns that are kept (FS21 §5.3)
  /// 1: subgraphs by breadth-first search are candidates, too; 0: they are not.
  int64_t subgraphs = 1;
  double launch_us = -1;      ///< φ, what a launch that is not made saves; -1: as the target says
  int64_t expressions = 48;   ///< a kernel at most: beyond this, registers run out and compile time
                              ///< grows faster than what a further merge saves
  int64_t operands = 10;      ///< of a seed of exploration at most (FS19 §4.2.2)
  int64_t seed_bytes = 4096;  ///< of the largest tensor that a seed reads or makes
  int64_t seed_patterns = 12;              ///< found from one seed
  int64_t large_flops = int64_t{1} << 24;  ///< of a product that partitions first (FS19 §4.2.1)
  int64_t nodes = 2000;                    ///< of a branch and bound
  int64_t cuts = 50;                       ///< cycles that are cut
  /// Flops from which a product stands for a library call (FS18 §2.1, the user's decision).
  int64_t call_flops = std::numeric_limits<int64_t>::max();
  int64_t footprint = int64_t{4} << 20;  ///< bytes of a pack of element-wise kernels (FS18 §3.2)
  int64_t outputs = 16;                  ///< of such a pack
  int64_t rounds = 8;                    ///< over the layers, until nothing merges
  /// Times that the operations of a composed expression are done at most, of those of the
  /// expression alone (expr/movement/compose_arithmetic.h); 0: none is composed.
  double recompute = 2;
  /// Sums over windows of three places on a CPU (expr/products/minimal_filtering.h): 1: by minimal
  /// filtering where that is predicted to be quicker; 2: wherever they have the form; 0: none.
  int64_t filter = 1;
  /// 1: what a block of a launch has on chip stays there for the launch's later kernels (Souffle
  /// §6.5); 0: they read it from memory.
  int64_t reuse = 1;
  /// 1: blocks of a launch ask for what none of its kernels makes before they wait for each other
  /// (Souffle §6.5); 0: behind barriers.
  int64_t ahead = 1;
  int64_t flat = 1;  ///< of a chain: flat tiling expressions, too (MCFuser §III-A); 0: deep ones
  /// What blocks of stages save of the time of their kernels apart at least, as a share: a CPU's
  /// predictions that are closer do not tell them apart.
  double gain = 0.1;
};

/// The parameters of a planner that a text names, others by their defaults: `top=5,beam=8`. Error
/// (kInvalidInput): no NAME=NUMBER, a name that the planner does not take, a number out of range.
Result<PlannerParameters> parse_planner_parameters(std::string_view text, std::string_view planner);

/// All parameters with the planners that take them.
std::string planner_parameters_help();

}  // namespace weft
