#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "codegen/cuda/emulator_abi.h"

namespace weft::simt {

using LaneArguments = std::array<simt_abi::wf_collective*, 32>;

/// Computes a collective for the lanes of `mask`, all of which have arrived with their arguments.
/// Shuffles from a lane outside the mask keep the own value; returns the last lane that asks for
/// one. Matrix products accumulate in float32, in the order of k (PTX ISA, mma.m16n8k16 and k8:
/// fragment layouts).
std::optional<int> compute_collective(uint32_t mask, const LaneArguments& lanes);

/// "shuffle", "ldmatrix", …
std::string collective_name(simt_abi::wf_collective_kind kind);

}  // namespace weft::simt
