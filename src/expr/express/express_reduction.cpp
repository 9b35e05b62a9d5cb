#include <algorithm>

#include "expr/express/express_node.h"

namespace weft {

TensorExpr express_reduce(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const auto& reduce = n.attrs<ReduceAttrs>();
  ReductionAxes axes(e);
  std::vector<IndexExpr> indices;
  int kept = 0;
  const Shape& shape = n.operand(0).shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool reduced = std::find(reduce.axes.begin(), reduce.axes.end(),
                                   static_cast<int64_t>(i)) != reduce.axes.end();
    indices.push_back(reduced ? axes.add(shape[i]) : IndexExpr::var(kept++));
  }
  axes.finish(reduce.combiner, accumulator_type(n.operand(0).dtype), n.read(0, std::move(indices)),
              n.result().dtype);
  return e;
}

TensorExpr express_arg_reduce(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const auto& reduce = n.attrs<ArgReduceAttrs>();
  const Shape& shape = n.operand(0).shape;
  const int64_t extent = shape[static_cast<size_t>(reduce.axis)];
  if (extent <= 1) {
    e.body = scalar_constant(int_value(n.result().dtype, 0));
    return e;
  }
  ReductionAxes axes(e);
  std::vector<IndexExpr> indices;
  int kept = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool reduced = static_cast<int64_t>(i) == reduce.axis;
    indices.push_back(reduced ? axes.add(extent) : IndexExpr::var(kept++));
  }
  e.combiner = reduce.combiner;
  e.last_on_ties = reduce.last_on_ties;
  e.accumulator = accumulator_type(n.operand(0).dtype);
  e.body = scalar_convert(n.read(0, std::move(indices)), e.accumulator);
  return e;
}

TensorExpr express_reduce_window(const ExpressedNode& n) {
  TensorExpr e = n.start();
  const auto& window = n.attrs<WindowAttrs>();
  const Shape& shape = n.operand(0).shape;
  const DType accumulator = accumulator_type(n.operand(0).dtype);
  ReductionAxes axes(e);
  std::vector<IndexExpr> indices;
  for (size_t i = 0; i < shape.size(); ++i) {
    const IndexExpr within = axes.add(window.window[i]);
    indices.push_back(IndexExpr::var(static_cast<int>(i)) * IndexExpr(window.strides[i]) +
                      within * IndexExpr(window.dilations[i]) - IndexExpr(window.low[i]));
  }
  const RangeOf range = [&](int id) { return e.range(id); };
  ScalarRef inside = scalar_true();
  for (size_t i = 0; i < shape.size(); ++i) {
    indices[i] = simplify(indices[i], range);
    inside = scalar_and(inside, scalar_in_range(indices[i], shape[i], range));
    indices[i] = where_inside(indices[i], shape[i]);
  }
  const ScalarRef value = scalar_convert(n.read(0, std::move(indices)), accumulator);
  axes.finish(window.combiner, accumulator,
              scalar_select(inside, value,
                            scalar_constant(combiner_identity(window.combiner, accumulator))),
              n.result().dtype);
  return e;
}

}  // namespace weft
