#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "codegen/cuda/emulator_abi.h"

namespace weft::simt {

using LaneArguments = std::array<simt_abi::wf_collective*, 32>;

/// Computes a collective for the lanes of `mask`, all of which have arrived with their arguments.
/// Shuffles from a lane outside the mask keep the own value; returns the lane that asks for one, or
/// -1. Matrix products accumulate in float32, in the order of k (PTX ISA, mma.m16n8k16 and k8:
/// fragment layouts).
int compute_collective(uint32_t mask, const LaneArguments& lanes);

/// "shuffle", "ldmatrix", …
std::string collective_name(simt_abi::wf_collective_kind kind);

}  // namespace weft::simt
