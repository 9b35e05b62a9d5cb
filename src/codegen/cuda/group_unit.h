#pragma once

#include <string>

#include "kernel/kernel_payload.h"

namespace weft {

/// Name of the i-th function of a kernel's text by which warp groups multiply.
std::string group_unit_name(size_t i);

/// The function, for NVRTC: wgmma over the whole depth, and a wait for it, or the one before. The
/// emulator has one for all of them (codegen/cuda/prelude.h, wf_group_multiply).
std::string group_unit_text(size_t i, const GroupMultiplyPayload& unit);

}  // namespace weft
