#include "expr/movement/factor_steps.h"

#include <algorithm>

namespace weft {
namespace {

/// Fewer channels are no group: most neighbours are of two.
constexpr int64_t kLeastChannels = 8;

}  // namespace

IndexExpr inside_group(const IndexExpr& e) {
  switch (e.op()) {
    case IndexOp::kAdd:
      return inside_group(e.lhs()) + inside_group(e.rhs());
    case IndexOp::kMul:
      return inside_group(e.lhs()) * inside_group(e.rhs());
    case IndexOp::kFloorDiv:
      return e.lhs().is_var() && e.rhs().constant() >= kLeastChannels ? IndexExpr(0) : e;
    case IndexOp::kMod:
      return e.lhs().is_var() && e.rhs().constant() >= kLeastChannels ? e.lhs() : e;
    default:
      return e;
  }
}

std::optional<AffineForm> memory_steps(const TensorProgram& program, const TensorExpr& e,
                                       const Scalar& read) {
  const Tensor& t = program.tensors[static_cast<size_t>(read.symbol)];
  AffineForm form;
  const IndexExpr offset =
      element_offset(t.layout, t.type.shape, read.indices, [&](int id) { return e.range(id); });
  if (!read.operands.empty() || !as_affine(inside_group(offset), &form)) return std::nullopt;
  return form;
}

bool runs_along(const Scalar& read, int v) {
  return std::ranges::any_of(read.indices, [v](const IndexExpr& i) { return uses_var(i, v); });
}

bool slides_along(const TensorExpr& e, const Scalar& read, const Scalar& other, int variable) {
  return !runs_along(other, variable) &&
         std::ranges::any_of(read.indices, [&](const IndexExpr& index) {
           return uses_var(index, variable) && std::ranges::any_of(variables(index), [&](int v) {
                    return v >= e.output_rank() && v < kRuntimeIndexBase;
                  });
         });
}

bool slides(const TensorExpr& e, const Scalar& read, const Scalar& other) {
  for (int v = 0; v < e.output_rank(); ++v) {
    if (slides_along(e, read, other, v)) return true;
  }
  return false;
}

}  // namespace weft
