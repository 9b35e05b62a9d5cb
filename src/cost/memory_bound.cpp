#include "cost/memory_bound.h"

#include <algorithm>
#include <limits>

#include "target/unit_peak.h"

namespace weft {

namespace {

/// Rows and columns of a tile at most: beyond these a block has no room for its results.
constexpr int64_t kMostTile = 128;

bool moves_with(const ScalarRef& factor, int variable) {
  bool moves = false;
  visit(factor, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kIndex) moves |= uses_var(s.index, variable);
    for (const IndexExpr& i : s.indices) moves |= uses_var(i, variable);
  });
  return moves;
}

/// The narrowest type that a factor is read in: what the matrix units multiply.
DType read_type(const ScalarRef& factor) {
  DType type = factor->type;
  visit(factor, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kRead && byte_size(s.type) < byte_size(type)) type = s.type;
  });
  return type;
}

}  // namespace

double tile_flops_per_byte(int64_t rows, int64_t columns, int64_t depth, int64_t element_bytes) {
  const auto m = static_cast<double>(std::min(rows, kMostTile));
  const auto n = static_cast<double>(std::min(columns, kMostTile));
  const auto k = static_cast<double>(depth);
  return 2 * m * n * k / ((2 * m * n + m * k + n * k) * static_cast<double>(element_bytes));
}

std::optional<TileIntensity> tile_intensity(const TensorProgram& program, const TensorExpr& expr,
                                            const Target& target) {
  if (!expr.is_contraction || expr.body->kind != Scalar::Kind::kApply ||
      expr.body->op != ScalarOp::kMul)
    return std::nullopt;
  const ScalarRef &left = expr.body->operands[0], &right = expr.body->operands[1];
  int64_t rows = 1, columns = 1, depth = 1;
  for (int v = 0; v < expr.axis_count(); ++v) {
    const int64_t extent = expr.range(v).hi + 1;
    if (v >= expr.output_rank()) {
      depth *= extent;
    } else if (moves_with(left, v) != moves_with(right, v)) {
      (moves_with(left, v) ? rows : columns) *= extent;
    }
  }
  const DType type = std::min(read_type(left), read_type(right),
                              [](DType a, DType b) { return byte_size(a) < byte_size(b); });
  const DType made = program.tensors[static_cast<size_t>(expr.output)].type.dtype;
  TileIntensity out;
  out.flops_per_byte =
      tile_flops_per_byte(rows, columns, depth, std::min(byte_size(type), byte_size(made)));
  const double gb_per_s = target.bandwidth_gb_per_s(std::numeric_limits<int64_t>::max());
  out.ridge = std::max(unit_gflops(type, target), target.peak_gflops) / std::max(gb_per_s, 1e-9);
  return out;
}

}  // namespace weft
