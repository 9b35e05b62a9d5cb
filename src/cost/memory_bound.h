#pragma once

#include <cstdint>
#include <optional>

#include "expr/tensor_program.h"
#include "target/target.h"

namespace weft {

/// MCFuser §II-A: whether memory bounds a contraction that is computed tile by tile, though it is
/// compute-intensive by its operator.
struct TileIntensity {
  double flops_per_byte = 0;  ///< φ: 2 T_M T_N K / (2 T_M T_N + T_M K + T_N K), by the bytes moved
  double ridge = 0;  ///< P/W: operations that the target does while a byte comes from memory
  bool memory_bound() const { return flops_per_byte < ridge; }
};

/// Of tiles of `rows` x `columns`, at most 128 each, over the whole `depth`.
double tile_flops_per_byte(int64_t rows, int64_t columns, int64_t depth, int64_t element_bytes);

/// Of a contraction on the target's units for the type of its factors. None: not a product of two
/// factors.
std::optional<TileIntensity> tile_intensity(const TensorProgram& program, const TensorExpr& expr,
                                            const Target& target);

}  // namespace weft
