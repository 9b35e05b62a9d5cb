#pragma once

#include <cstdint>

#include "schedule/stages/block_space.h"
#include "schedule/stages/demand_boxes.h"
#include "schedule/stages/form_stages.h"

namespace weft {

/// Bytes of a core's scratch that a block is estimated to take before it is built (MCFuser §III-C,
/// Eq. 1, without operands, which a CPU reads where memory has them): what is carried throughout,
/// what stages hand each other from the one that makes it to the last that reads it, and a panel of
/// an operand that lies across the vectors while its stage runs.
int64_t scratch_bytes(const BlockSpace& space, const DemandBoxes& demand, const Stages& stages,
                      const Target& target);

}  // namespace weft
