#include "schedule/cpu/panel_fit.h"

#include <algorithm>

#include "schedule/writer/one_reduction.h"

namespace weft {

namespace {

/// A product in float32 of something and a constant.
bool multiplies_a_constant(const GroupSpace& space, int root) {
  const TensorExpr& e = space.expr(root);
  const bool product = e.is_contraction && e.combiner == Combiner::kSum &&
                       e.accumulator == DType::kF32 && e.body->kind == Scalar::Kind::kApply &&
                       e.body->op == ScalarOp::kMul && e.body->type == DType::kF32;
  return product && std::ranges::any_of(e.body->operands, [&](const ScalarRef& factor) {
           if (factor->kind != Scalar::Kind::kRead || factor->type != DType::kF32) return false;
           const Tensor& t = space.program().tensors[static_cast<size_t>(factor->symbol)];
           return t.kind == Tensor::Kind::kConstant;
         });
}

}  // namespace

Fit fits_panel(const GroupSpace& space) {
  const std::vector<int>& roots = space.axes().reductions;
  const bool several =
      roots.size() > 1 && roots.size() <= kMostProducts && !space.frame() &&
      std::ranges::all_of(roots, [&](int root) { return multiplies_a_constant(space, root); });
  return several ? Fit::of(holds_reductions_of_one_tile(space)) : fits_result_tile(space);
}

}  // namespace weft
