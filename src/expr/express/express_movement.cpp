#include "expr/express/express_node.h"

namespace weft {

TensorExpr express_broadcast(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const std::vector<int64_t>& dims = n.attrs<BroadcastAttrs>().dims;
  std::vector<IndexExpr> indices;
  for (size_t i = 0; i < dims.size(); ++i) {
    indices.push_back(n.operand(0).shape[i] == 1 ? IndexExpr(0)
                                                 : IndexExpr::var(static_cast<int>(dims[i])));
  }
  e.body = n.read(0, std::move(indices));
  return e;
}

TensorExpr express_reshape(const ExpressedNode& n) {
  TensorExpr e = n.start();
  e.body = n.read(0, reshape_map(n.operand(0).shape, n.result().shape).results);
  return e;
}

TensorExpr express_transpose(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const std::vector<int64_t>& permutation = n.attrs<TransposeAttrs>().permutation;
  std::vector<IndexExpr> indices(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    indices[static_cast<size_t>(permutation[i])] = IndexExpr::var(static_cast<int>(i));
  }
  e.body = n.read(0, std::move(indices));
  return e;
}

TensorExpr express_slice(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const auto& slice = n.attrs<SliceAttrs>();
  std::vector<IndexExpr> indices;
  for (size_t i = 0; i < slice.start.size(); ++i) {
    // An axis of one element has no use for its step, which may be any number.
    const IndexExpr along = n.result().shape[i] <= 1
                                ? IndexExpr(0)
                                : IndexExpr::var(static_cast<int>(i)) * IndexExpr(slice.step[i]);
    indices.push_back(along + IndexExpr(slice.start[i]));
  }
  e.body = n.read(0, std::move(indices));
  return e;
}

TensorExpr express_pad(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const auto& pad = n.attrs<PadAttrs>();
  const RangeOf range = [&](int id) { return e.range(id); };
  std::vector<IndexExpr> indices;
  ScalarRef inside = scalar_true();
  for (size_t i = 0; i < pad.low.size(); ++i) {
    indices.push_back(IndexExpr::var(static_cast<int>(i)) - IndexExpr(pad.low[i]));
    const int64_t extent = n.operand(0).shape[i];
    inside = scalar_and(inside, scalar_in_range(indices[i], extent, range));
    indices[i] = where_inside(indices[i], extent);
  }
  e.body = scalar_select(inside, n.read(0, indices), n.read(1, {}));
  return e;
}

namespace {

/// The operands [first, last) as a tree of selects whose depth is the logarithm of their number.
ScalarRef concat_tree(const ExpressedNode& n, const std::vector<size_t>& operands,
                      const std::vector<int64_t>& starts, size_t first, size_t last) {
  const int axis = static_cast<int>(n.attrs<ConcatAttrs>().axis);
  if (last - first == 1) {
    std::vector<IndexExpr> indices;
    for (int d = 0; d < n.rank(); ++d) indices.push_back(IndexExpr::var(d));
    indices[static_cast<size_t>(axis)] = IndexExpr::var(axis) - IndexExpr(starts[first]);
    return n.read(operands[first], std::move(indices));
  }
  const size_t middle = first + (last - first + 1) / 2;
  const ScalarRef before = scalar_apply(
      ScalarOp::kLt,
      {scalar_index(IndexExpr::var(axis)), scalar_constant(int_value(DType::kI64, starts[middle]))},
      DType::kBool);
  return scalar_select(before, concat_tree(n, operands, starts, first, middle),
                       concat_tree(n, operands, starts, middle, last));
}

}  // namespace

TensorExpr express_concat(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const auto axis = static_cast<size_t>(n.attrs<ConcatAttrs>().axis);
  std::vector<size_t> operands;
  std::vector<int64_t> starts;
  int64_t position = 0;
  for (size_t i = 0; i < n.node.operands.size(); ++i) {
    const int64_t extent = n.operand(i).shape[axis];
    if (extent == 0) continue;
    operands.push_back(i);
    starts.push_back(position);
    position += extent;
  }
  if (operands.empty()) {
    operands.push_back(0);
    starts.push_back(0);
  }
  e.body = concat_tree(n, operands, starts, 0, operands.size());
  return e;
}

}  // namespace weft
