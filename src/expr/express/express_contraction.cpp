#include <algorithm>

#include "expr/express/express_node.h"

namespace weft {
namespace {

/// a * b in the type that the sum is kept in.
ScalarRef product(const ScalarRef& a, const ScalarRef& b, DType accumulator) {
  return scalar_apply(ScalarOp::kMul,
                      {scalar_convert(a, accumulator), scalar_convert(b, accumulator)},
                      accumulator);
}

/// A read of operand `i` as a tensor even where its elements are all equal: contractions keep
/// their form.
ScalarRef read_operand(const ExpressedNode& n, size_t i, std::vector<IndexExpr> indices) {
  return scalar_read(n.tensor_of[static_cast<size_t>(n.node.operands[i])], n.operand(i).dtype,
                     std::move(indices));
}

void finish_contraction(ReductionAxes& axes, TensorExpr& e, const ScalarRef& body,
                        DType accumulator, DType result) {
  axes.finish(Combiner::kSum, accumulator, body, result);
  e.is_contraction = !e.reduce_extents.empty();
}

}  // namespace

TensorExpr express_dot_general(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const auto& dot = n.attrs<DotAttrs>();
  const DType accumulator = accumulator_type(n.result().dtype);
  std::vector<IndexExpr> indices[2] = {std::vector<IndexExpr>(n.operand(0).shape.size()),
                                       std::vector<IndexExpr>(n.operand(1).shape.size())};
  int next = 0;
  for (size_t b = 0; b < dot.lhs_batch.size(); ++b) {
    const IndexExpr d = IndexExpr::var(next++);
    indices[0][static_cast<size_t>(dot.lhs_batch[b])] = d;
    indices[1][static_cast<size_t>(dot.rhs_batch[b])] = d;
  }
  for (const size_t side : {0, 1}) {
    const auto& batch = side == 0 ? dot.lhs_batch : dot.rhs_batch;
    const auto& contract = side == 0 ? dot.lhs_contract : dot.rhs_contract;
    for (size_t i = 0; i < indices[side].size(); ++i) {
      const auto axis = static_cast<int64_t>(i);
      const bool is_free = std::find(batch.begin(), batch.end(), axis) == batch.end() &&
                           std::find(contract.begin(), contract.end(), axis) == contract.end();
      if (is_free) indices[side][i] = IndexExpr::var(next++);
    }
  }
  ReductionAxes axes(e);
  for (size_t c = 0; c < dot.lhs_contract.size(); ++c) {
    const auto axis = static_cast<size_t>(dot.lhs_contract[c]);
    const IndexExpr k = axes.add(n.operand(0).shape[axis]);
    indices[0][axis] = k;
    indices[1][static_cast<size_t>(dot.rhs_contract[c])] = k;
  }
  const ScalarRef body =
      product(read_operand(n, 0, indices[0]), read_operand(n, 1, indices[1]), accumulator);
  finish_contraction(axes, e, body, accumulator, n.result().dtype);
  return e;
}

TensorExpr express_convolution(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const auto& conv = n.attrs<ConvolutionAttrs>();
  const DType accumulator = accumulator_type(n.result().dtype);
  const Shape& x_shape = n.operand(0).shape;
  const Shape& w_shape = n.operand(1).shape;
  const size_t spatial = conv.strides.size();
  ReductionAxes axes(e);
  std::vector<IndexExpr> taps;
  for (size_t s = 0; s < spatial; ++s) taps.push_back(axes.add(w_shape[s + 2]));
  const IndexExpr channel = axes.add(w_shape[1]);

  const RangeOf range = [&](int id) { return e.range(id); };
  const IndexExpr feature = IndexExpr::var(1);
  const int64_t features_per_group = std::max<int64_t>(1, w_shape[0] / conv.groups);
  const IndexExpr group = floor_div(feature, features_per_group);
  std::vector<IndexExpr> x = {IndexExpr::var(0), group * IndexExpr(w_shape[1]) + channel};
  std::vector<IndexExpr> w = {feature, channel};
  ScalarRef inside = scalar_true();
  for (size_t s = 0; s < spatial; ++s) {
    // Position in the dilated, unpadded input; between its elements stand zeros.
    IndexExpr at = IndexExpr::var(static_cast<int>(s) + 2) * IndexExpr(conv.strides[s]) +
                   taps[s] * IndexExpr(conv.rhs_dilations[s]) - IndexExpr(conv.low[s]);
    const int64_t dilation = conv.lhs_dilations[s];
    const int64_t dilated = x_shape[s + 2] == 0 ? 0 : (x_shape[s + 2] - 1) * dilation + 1;
    at = simplify(at, range);
    inside = scalar_and(inside, scalar_in_range(at, dilated, range));
    if (dilation > 1) {
      const ScalarRef on_element = scalar_apply(ScalarOp::kEq,
                                                {scalar_index(simplify(mod(at, dilation), range)),
                                                 scalar_constant(int_value(DType::kI64, 0))},
                                                DType::kBool);
      inside = scalar_and(inside, on_element);
      at = simplify(floor_div(at, dilation), range);
    }
    x.push_back(where_inside(at, x_shape[s + 2]));
    w.push_back(taps[s]);
  }
  x[1] = simplify(x[1], range);
  const ScalarRef zero = scalar_convert(scalar_constant(int_value(DType::kI64, 0)), accumulator);
  const ScalarRef value = scalar_convert(read_operand(n, 0, std::move(x)), accumulator);
  const ScalarRef body =
      product(scalar_select(inside, value, zero), read_operand(n, 1, std::move(w)), accumulator);
  finish_contraction(axes, e, body, accumulator, n.result().dtype);
  return e;
}

}  // namespace weft
