#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/program.h"
#include "runtime/share.h"
#include "support/dtype.h"
#include "support/result.h"

namespace weft {

/// A dense row-major tensor that a host operation reads or writes.
struct HostOperand {
  DType dtype = DType::kF32;
  const Shape* shape = nullptr;
  std::byte* data = nullptr;
};

/// Buffers of a program as operands without data.
std::vector<HostOperand> types_of(std::span<const ProgramBuffer> buffers,
                                  std::span<const int32_t> ids);

/// `part`'s cache lines of a copy; nothing where both are one.
void copy_part(const std::byte* from, std::byte* to, int64_t bytes, HostPart part);

/// Operand and result counts, types, shapes and axes of `step` fit its operation, so that
/// run_host_step stays inside the tensors whatever they contain. `operands` and `results` need no
/// data.
///
///     copy              x -> y                             as many bytes
///     sort              x -> values, i64 indices           stable
///     top_k             x -> values, i64 indices           extent k along axis, ties to the lower
///     scatter_elements  data, indices, updates -> y        indices i64 or i32
///     scatter_nd        data, indices[..., n], updates -> y
///     cumulative        x -> y
Status verify_host_step(const HostStep& step, std::span<const HostOperand> operands,
                        std::span<const HostOperand> results);

/// Bytes of scratch that each thread of a run_host_step needs, aligned to 8; -1: too many.
int64_t host_step_scratch_bytes(const HostStep& step, std::span<const HostOperand> operands);

/// Pieces of a verified step that threads can share, whatever the data.
int64_t host_step_pieces(const HostStep& step, std::span<const HostOperand> operands);

/// About how long one thread takes for a verified step, as measured on a Zen 4, in microseconds.
double host_step_microseconds(const HostStep& step, std::span<const HostOperand> operands);

/// Phases of a step, between which its threads wait for each other.
int host_step_phases(const HostStep& step);

/// Executes `part`'s share of a phase of a verified step with the meaning of graph/ops.def;
/// allocates nothing. What is written does not depend on the number of parts. NaN orders above
/// every number (last when ascending, first when descending), as in numpy. Scatter indices clamp
/// into range; where several updates hit one element the last wins, in row-major order of the
/// updates. Floating-point running sums and products are kept in double.
void run_host_phase(const HostStep& step, int phase, std::span<const HostOperand> operands,
                    std::span<const HostOperand> results, HostPart part, std::byte* scratch);

/// All phases of all parts.
void run_host_step(const HostStep& step, std::span<const HostOperand> operands,
                   std::span<const HostOperand> results, std::byte* scratch);

}  // namespace weft
