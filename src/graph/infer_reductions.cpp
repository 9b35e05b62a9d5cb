#include <algorithm>

#include "graph/type_inference.h"

namespace weft {

TypeInference::Types TypeInference::reduce() const {
  WEFT_RETURN_IF_ERROR(expect_operands(1));
  const auto& reduce = std::get<ReduceAttrs>(attrs);
  WEFT_RETURN_IF_ERROR(expect_axes(reduce.axes, 0, "axes"));
  if (!std::is_sorted(reduce.axes.begin(), reduce.axes.end())) return fail("axes must ascend");
  WEFT_RETURN_IF_ERROR(expect_combiner(reduce.combiner, operand(0).dtype));
  Shape result;
  for (int64_t i = 0; i < rank(0); ++i) {
    if (!std::binary_search(reduce.axes.begin(), reduce.axes.end(), i)) {
      result.push_back(shape(0)[static_cast<size_t>(i)]);
    }
  }
  return std::vector<TensorType>{{operand(0).dtype, std::move(result)}};
}

TypeInference::Types TypeInference::arg_reduce() const {
  WEFT_RETURN_IF_ERROR(expect_operands(1));
  const auto& reduce = std::get<ArgReduceAttrs>(attrs);
  WEFT_RETURN_IF_ERROR(expect_axis(reduce.axis, 0));
  if (!combiner_is_arg(reduce.combiner)) return fail("the combiner must be arg_min or arg_max");
  Shape result = shape(0);
  result.erase(result.begin() + reduce.axis);
  if (shape(0)[static_cast<size_t>(reduce.axis)] == 0 && *element_count(result) > 0) {
    return fail("no element to choose from");
  }
  return std::vector<TensorType>{{DType::kI64, std::move(result)}};
}

std::optional<int64_t> windowed_extent(const WindowAxis& axis) {
  if (axis.window < 1 || axis.stride < 1 || axis.x_dilation < 1 || axis.window_dilation < 1) {
    return std::nullopt;
  }
  for (int64_t value :
       {axis.window, axis.stride, axis.low, axis.high, axis.x_dilation, axis.window_dilation}) {
    if (value > kMaxOffset || value < -kMaxOffset) return std::nullopt;
  }
  int64_t padded = 0;
  int64_t window = 0;
  if (axis.extent > 0 && (__builtin_mul_overflow(axis.extent - 1, axis.x_dilation, &padded) ||
                          __builtin_add_overflow(padded, 1, &padded))) {
    return std::nullopt;
  }
  if (__builtin_add_overflow(padded, axis.low, &padded) ||
      __builtin_add_overflow(padded, axis.high, &padded) || padded < 0) {
    return std::nullopt;
  }
  if (__builtin_mul_overflow(axis.window - 1, axis.window_dilation, &window) ||
      __builtin_add_overflow(window, 1, &window)) {
    return std::nullopt;
  }
  return window > padded ? 0 : (padded - window) / axis.stride + 1;
}

TypeInference::Types TypeInference::reduce_window() const {
  WEFT_RETURN_IF_ERROR(expect_operands(1));
  const auto& w = std::get<WindowAttrs>(attrs);
  WEFT_RETURN_IF_ERROR(expect_length(w.window, rank(0), "window"));
  WEFT_RETURN_IF_ERROR(expect_length(w.strides, rank(0), "strides"));
  WEFT_RETURN_IF_ERROR(expect_length(w.dilations, rank(0), "dilations"));
  WEFT_RETURN_IF_ERROR(expect_length(w.low, rank(0), "low"));
  WEFT_RETURN_IF_ERROR(expect_length(w.high, rank(0), "high"));
  WEFT_RETURN_IF_ERROR(expect_combiner(w.combiner, operand(0).dtype));
  Shape result;
  for (size_t i = 0; i < shape(0).size(); ++i) {
    const std::optional<int64_t> extent = windowed_extent(
        {shape(0)[i], w.window[i], w.strides[i], w.low[i], w.high[i], 1, w.dilations[i]});
    if (!extent) return fail("the window on axis " + std::to_string(i) + " makes no sense");
    result.push_back(*extent);
  }
  return std::vector<TensorType>{{operand(0).dtype, std::move(result)}};
}

TypeInference::Types TypeInference::cumulative() const {
  WEFT_RETURN_IF_ERROR(expect_operands(1));
  const auto& cumulative = std::get<CumulativeAttrs>(attrs);
  WEFT_RETURN_IF_ERROR(expect_axis(cumulative.axis, 0));
  WEFT_RETURN_IF_ERROR(expect_combiner(cumulative.combiner, operand(0).dtype));
  return std::vector<TensorType>{operand(0)};
}

TypeInference::Types TypeInference::sort() const {
  WEFT_RETURN_IF_ERROR(expect_operands(1));
  WEFT_RETURN_IF_ERROR(expect_axis(std::get<SortAttrs>(attrs).axis, 0));
  return std::vector<TensorType>{operand(0), {DType::kI64, shape(0)}};
}

TypeInference::Types TypeInference::top_k() const {
  WEFT_RETURN_IF_ERROR(expect_operands(1));
  const auto& top = std::get<TopKAttrs>(attrs);
  WEFT_RETURN_IF_ERROR(expect_axis(top.axis, 0));
  TensorType result = operand(0);
  int64_t& extent = result.shape[static_cast<size_t>(top.axis)];
  if (top.k < 0 || top.k > extent) {
    return fail("k " + std::to_string(top.k) + " is not within the axis");
  }
  extent = top.k;
  Shape indices = result.shape;
  return std::vector<TensorType>{std::move(result), {DType::kI64, std::move(indices)}};
}

}  // namespace weft
