#pragma once

#include <limits>
#include <string>

#include "schedule/stages/block_space.h"
#include "schedule/stages/form_stages.h"
#include "schedule/writer/scheduled_kernel.h"

namespace weft {

/// Why a block is none in which warps hand on values.
inline constexpr const char* kNoneInWarps =
    "no warp finds what it reads where another stage's warp has it";

/// How the stages of a GPU's block hand each other rows.
enum class Handing : uint8_t {
  kByBlock,  ///< each is laid out by itself; what others read is in block memory
  /// Where a stage's rows can lie as what it reads was made, they do (schedule/gpu/warp_rows): what
  /// is handed on stays in registers, and is exchanged by shuffles
  kByWarp
};

/// The tile program of blocks that make stages after each other: each stage as its template writes
/// it in the frame of its boxes, with the grid of its loops as loops of the block. What one stage
/// makes for another is a value, which lives where derive_scopes finds that it must; on a GPU at
/// least in block memory, but where all readers find it in their warp.
///
/// `how` gives each stage's choice; null: the ranker chooses. On a GPU `predicted_us` is what the
/// stages take (stage_us). Errors: kInvalidInput, a choice that is none for its stage;
/// kUnsupported, blocks that would share what they keep, stages that take `most_us` or more, or no
/// value that a warp hands on where that is asked for.
/// Where choices are given the program is verified. Else it is not yet: of several that are
/// weighed, the one that is taken needs to be.
Result<ScheduledKernel> build_block(const BlockSpace& space, const BlockPartition& partition,
                                    const DemandBoxes& demand, const Stages& stages,
                                    const std::vector<Composition>* how, const Target& target,
                                    const std::string& name,
                                    double most_us = std::numeric_limits<double>::infinity(),
                                    Handing handing = Handing::kByBlock);

/// Error (kUnsupported): the program of a built block does not verify.
Status verify_block(const ScheduledKernel& kernel);

}  // namespace weft
