#include "expr/express/express_node.h"

namespace weft {
namespace {

IndexExpr runtime(size_t number) {
  return IndexExpr::var(kRuntimeIndexBase + static_cast<int>(number));
}

}  // namespace

TensorExpr express_gather(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const auto& gather = n.attrs<GatherAttrs>();
  const int axis = static_cast<int>(gather.axis);
  const int batch = static_cast<int>(gather.batch_dims);
  const int index_rank = static_cast<int>(n.operand(1).shape.size());
  const int data_rank = static_cast<int>(n.operand(0).shape.size());
  // Result axes: data before the axis, the indices without their batch axes, data after it.
  std::vector<IndexExpr> where;
  for (int d = 0; d < batch; ++d) where.push_back(IndexExpr::var(d));
  for (int d = batch; d < index_rank; ++d) where.push_back(IndexExpr::var(axis + d - batch));
  std::vector<IndexExpr> indices;
  for (int d = 0; d < data_rank; ++d) {
    indices.push_back(d < axis    ? IndexExpr::var(d)
                      : d == axis ? runtime(0)
                                  : IndexExpr::var(d - 1 + index_rank - batch));
  }
  e.body = n.read(0, std::move(indices), {n.read(1, std::move(where))});
  return e;
}

TensorExpr express_gather_elements(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const auto axis = static_cast<size_t>(n.attrs<AxisAttrs>().axis);
  std::vector<IndexExpr> indices;
  for (int d = 0; d < n.rank(); ++d) indices.push_back(IndexExpr::var(d));
  indices[axis] = runtime(0);
  e.body = n.read(0, std::move(indices), {n.read_here(1)});
  return e;
}

TensorExpr express_gather_nd(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const int batch = static_cast<int>(n.attrs<GatherNdAttrs>().batch_dims);
  const Shape& index_shape = n.operand(1).shape;
  const int tuple_rank = static_cast<int>(index_shape.size()) - 1;
  const int depth = static_cast<int>(index_shape.back());
  const int data_rank = static_cast<int>(n.operand(0).shape.size());
  std::vector<IndexExpr> indices;
  std::vector<ScalarRef> positions;
  for (int d = 0; d < batch; ++d) indices.push_back(IndexExpr::var(d));
  for (int k = 0; k < depth; ++k) {
    std::vector<IndexExpr> where;
    for (int d = 0; d < tuple_rank; ++d) where.push_back(IndexExpr::var(d));
    where.emplace_back(k);
    indices.push_back(runtime(positions.size()));
    positions.push_back(n.read(1, std::move(where)));
  }
  for (int d = batch + depth; d < data_rank; ++d) {
    indices.push_back(IndexExpr::var(tuple_rank + d - batch - depth));
  }
  e.body = n.read(0, std::move(indices), std::move(positions));
  return e;
}

}  // namespace weft
