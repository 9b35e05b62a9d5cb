#pragma once

#include <map>

#include "expr/tensor_program.h"

namespace weft {

/// How one element of an expression depends on a tensor that it reads (Souffle §4,
/// "one-relies-on-one/many").
enum class DependenceClass : uint8_t { kOneToOne, kOneToMany };
DependenceClass dependence_class(const TensorExpr& expr, TensorId read);

/// Scalar operations (a fused multiply-add counts 2) and bytes of distinct elements read and
/// written.
struct ExprCost {
  int64_t flops = 0;
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t elements = 0;      ///< distinct ones read and written
  double intensity() const;  ///< flops per element read or written (Souffle §5.4)
};
ExprCost expr_cost(const TensorProgram& program, const TensorExpr& expr);

/// Its scalar operations alone.
int64_t flops_of(const TensorExpr& expr);

/// Flops that take as long at the peak of multiply-adds: an operation by itself takes the slot of a
/// multiply-add, a division that of ten, an elementary function is some fifteen instructions.
int64_t flops_at_peak(const TensorExpr& expr);

/// Bytes of distinct elements that `expr` reads, by tensor.
std::map<TensorId, int64_t> bytes_read_by_tensor(const TensorProgram& program,
                                                 const TensorExpr& expr);

/// Distinct elements of `read.symbol` that the reads of `expr` touch: an upper bound from the image
/// of the map.
int64_t distinct_elements(const TensorProgram& program, const TensorExpr& expr, const Scalar& read);

/// Souffle §5.4: an expression of at least this intensity is compute-intensive.
inline constexpr double kComputeIntensive = 3;

/// Expressions that read the same tensor (Souffle §5.1); only sets of two members or more.
struct ReuseSet {
  TensorId tensor = -1;
  std::vector<int32_t> readers;  ///< positions in steps
  bool temporal = false;         ///< some reader depends on another; else the reuse is spatial
};
std::vector<ReuseSet> reuse_sets(const TensorProgram& program);

/// First and last step at which each tensor is alive; outputs live to the end (Souffle §5.1).
struct LiveRange {
  int32_t first = 0, last = 0;
};
std::vector<LiveRange> live_ranges(const TensorProgram& program);

}  // namespace weft
