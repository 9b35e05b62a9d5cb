#pragma once

#include "lower/cpu/cpu_writer.h"

namespace weft::lowering {

/// One contiguous load and a permutation of its lanes in place of a gather.
std::optional<Reg> load_permuted(CpuWriter& w, int32_t buffer, const Scalar& read,
                                 const PreparedIndex& offset, const Point& point, Reg guard);

/// Vectors across rows: the rows are loaded along memory and exchanged in registers.
std::optional<Reg> load_transposed(CpuWriter& w, int32_t buffer, const Scalar& read,
                                   const PreparedIndex& offset, const Point& point, Reg guard);

/// Lanes a few elements apart: the vectors from the first element to the last one, of which the
/// lanes are picked. Reads nothing beyond these.
std::optional<Reg> load_strided(CpuWriter& w, int32_t buffer, const PreparedIndex& offset,
                                const Point& point, Reg guard);

}  // namespace weft::lowering
