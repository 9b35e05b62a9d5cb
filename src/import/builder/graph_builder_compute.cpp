#include <fmt/format.h>

#include <algorithm>

#include "import/builder/graph_builder.h"

namespace weft::onnx {

ValueId GraphBuilder::wrap_indices(ValueId indices, int64_t extent) {
  if (!is_integer(dtype(indices))) {
    refuse_invalid(fmt::format("indices must be integers, not {}", print(type(indices))));
  }
  if (const HostTensor* known = constant_value(indices)) {
    bool negative = false;
    for (int64_t i = 0; i < known->size(); ++i) negative = negative || known->at_int(i) < 0;
    if (!negative) return indices;
  }
  const ValueId wrapped = add(indices, full_int(dtype(indices), {}, extent));
  return select(binary(ScalarOp::kLt, indices, scalar_int(dtype(indices), 0)), wrapped, indices);
}

ValueId GraphBuilder::gather(ValueId data, ValueId indices, int64_t axis, int64_t batch_dims) {
  return node1(GraphOp::kGather, GatherAttrs{axis, batch_dims}, {data, indices});
}

ValueId GraphBuilder::gather_elements(ValueId data, ValueId indices, int64_t axis) {
  return node1(GraphOp::kGatherElements, AxisAttrs{axis}, {data, indices});
}

ValueId GraphBuilder::gather_nd(ValueId data, ValueId indices, int64_t batch_dims) {
  return node1(GraphOp::kGatherNd, GatherNdAttrs{batch_dims}, {data, indices});
}

ValueId GraphBuilder::scatter_elements(ValueId data, ValueId indices, ValueId updates,
                                       ScatterAttrs attrs) {
  return node1(GraphOp::kScatterElements, attrs, {data, indices, updates});
}

ValueId GraphBuilder::scatter_nd(ValueId data, ValueId indices, ValueId updates,
                                 ScatterAttrs attrs) {
  return node1(GraphOp::kScatterNd, attrs, {data, indices, updates});
}

ValueId GraphBuilder::reduce(Combiner combiner, ValueId x, std::vector<int64_t> axes,
                             bool keep_dims) {
  axes = normal_axes(std::move(axes), rank(x));
  if (axes.empty()) return x;
  const ValueId reduced = node1(GraphOp::kReduce, ReduceAttrs{axes, combiner}, {x});
  return keep_dims ? unsqueeze(reduced, axes) : reduced;
}

ValueId GraphBuilder::reduce_mean(ValueId x, std::vector<int64_t> axes, bool keep_dims) {
  axes = normal_axes(std::move(axes), rank(x));
  int64_t count = 1;
  for (int64_t axis : axes) count *= extent(x, axis);
  const ValueId sum = reduce(Combiner::kSum, x, axes, keep_dims);
  return div(sum, static_cast<double>(count));
}

ValueId GraphBuilder::arg_reduce(Combiner combiner, ValueId x, int64_t axis, bool keep_dims,
                                 bool last_on_ties) {
  axis = normal_axis(axis, rank(x));
  const ValueId reduced =
      node1(GraphOp::kArgReduce, ArgReduceAttrs{axis, combiner, last_on_ties}, {x});
  return keep_dims ? unsqueeze(reduced, {axis}) : reduced;
}

ValueId GraphBuilder::reduce_window(ValueId x, WindowAttrs attrs) {
  return node1(GraphOp::kReduceWindow, std::move(attrs), {x});
}

ValueId GraphBuilder::cumulative(ValueId x, CumulativeAttrs attrs) {
  return node1(GraphOp::kCumulative, attrs, {x});
}

ValueId GraphBuilder::dot_general(ValueId a, ValueId b, DotAttrs attrs, DType result) {
  return node1(GraphOp::kDotGeneral, std::move(attrs), {a, b}, {result, {}});
}

ValueId GraphBuilder::matmul(ValueId a, ValueId b, DType result) {
  if (rank(a) < 2 || rank(b) < 2) {
    refuse_invalid(fmt::format("matmul needs two axes: {} and {}", print(type(a)), print(type(b))));
  }
  const Shape batch = broadcast_shape(Shape(shape(a).begin(), shape(a).end() - 2),
                                      Shape(shape(b).begin(), shape(b).end() - 2));
  DotAttrs attrs;
  const auto batch_rank = static_cast<int64_t>(batch.size());
  // A weight that all batches share contracts with the batches as rows: one large product, no
  // broadcast.
  if (rank(b) == 2) {
    attrs.lhs_contract = {rank(a) - 1};
    attrs.rhs_contract = {0};
    return dot_general(a, b, std::move(attrs), result);
  }
  const auto expand = [&](ValueId x) {
    Shape to = batch;
    to.insert(to.end(), shape(x).end() - 2, shape(x).end());
    return broadcast_to(x, to);
  };
  for (int64_t i = 0; i < batch_rank; ++i) {
    attrs.lhs_batch.push_back(i);
    attrs.rhs_batch.push_back(i);
  }
  attrs.lhs_contract = {batch_rank + 1};
  attrs.rhs_contract = {batch_rank};
  const ValueId left = expand(a);
  const ValueId right = expand(b);
  return dot_general(left, right, std::move(attrs), result);
}

ValueId GraphBuilder::convolution(ValueId x, ValueId w, ConvolutionAttrs attrs, DType result) {
  return node1(GraphOp::kConvolution, std::move(attrs), {x, w}, {result, {}});
}

std::pair<ValueId, ValueId> GraphBuilder::sort(ValueId x, int64_t axis, bool descending) {
  axis = normal_axis(axis, rank(x));
  const std::vector<ValueId> results = node(GraphOp::kSort, SortAttrs{axis, descending}, {x});
  WEFT_CHECK(results.size() == 2, "sort gives values and indices");
  return {results[0], results[1]};
}

std::pair<ValueId, ValueId> GraphBuilder::top_k(ValueId x, TopKAttrs attrs) {
  const std::vector<ValueId> results = node(GraphOp::kTopK, attrs, {x});
  WEFT_CHECK(results.size() == 2, "top_k gives values and indices");
  return {results[0], results[1]};
}

}  // namespace weft::onnx
