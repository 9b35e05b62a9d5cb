#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/fusion_plan.h"

namespace weft {

/// How an operation of a GPU's kernel hands its result to the others of the kernel (AStitch §4.2):
/// to none, in the registers of threads, in the memory of a block or cluster or behind a barrier of
/// that, or behind a barrier of the grid. Of several readers the farthest decides.
enum class StitchingScheme : uint8_t { kIndependent, kLocal, kRegional, kGlobal };
std::string_view scheme_name(StitchingScheme scheme);

/// An operation by the name of what it makes.
struct StitchedOp {
  std::string name;
  StitchingScheme scheme = StitchingScheme::kIndependent;
  /// A block that reads it has made it, and asks memory all the same: what its launch keeps leaves
  /// no room (AStitch §4.2: regional stitching becomes global).
  bool demoted = false;
};

/// The operations of a kernel, in their order. Empty for a CPU's and for a library's call.
std::vector<StitchedOp> stitching_of(const TensorProgram& program, const PlannedKernel& kernel);

/// "local: e, z; regional: m, s; global: p (demoted)"; empty where no operation reads another.
std::string stitching_text(const std::vector<StitchedOp>& ops);

}  // namespace weft
