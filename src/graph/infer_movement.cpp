#include "graph/type_inference.h"

namespace weft {
namespace {

bool checked_sum(int64_t a, int64_t b, int64_t c, int64_t* sum) {
  return !__builtin_add_overflow(a, b, sum) && !__builtin_add_overflow(*sum, c, sum);
}

}  // namespace

TypeInference::Types TypeInference::broadcast() const {
  WEFT_RETURN_IF_ERROR(expect_operands(1));
  const std::vector<int64_t>& dims = std::get<BroadcastAttrs>(attrs).dims;
  WEFT_RETURN_IF_ERROR(expect_length(dims, rank(0), "dims"));
  int64_t previous = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] <= previous || dims[i] >= static_cast<int64_t>(hint.shape.size())) {
      return fail("dims must be ascending axes of " + print(hint));
    }
    previous = dims[i];
    const int64_t extent = shape(0)[i];
    if (extent != 1 && extent != hint.shape[static_cast<size_t>(dims[i])]) {
      return fail("axis " + std::to_string(i) + " does not broadcast to " + print(hint));
    }
  }
  return std::vector<TensorType>{{operand(0).dtype, hint.shape}};
}

TypeInference::Types TypeInference::reshape() const {
  WEFT_RETURN_IF_ERROR(expect_operands(1));
  const std::optional<int64_t> count = element_count(hint.shape);
  if (!count || *count != *element_count(shape(0))) {
    return fail("cannot become " + print(hint) + ": another number of elements");
  }
  return std::vector<TensorType>{{operand(0).dtype, hint.shape}};
}

TypeInference::Types TypeInference::transpose() const {
  WEFT_RETURN_IF_ERROR(expect_operands(1));
  const std::vector<int64_t>& permutation = std::get<TransposeAttrs>(attrs).permutation;
  WEFT_RETURN_IF_ERROR(expect_length(permutation, rank(0), "permutation"));
  WEFT_RETURN_IF_ERROR(expect_axes(permutation, 0, "permutation"));
  Shape result;
  for (int64_t axis : permutation) result.push_back(shape(0)[static_cast<size_t>(axis)]);
  return std::vector<TensorType>{{operand(0).dtype, std::move(result)}};
}

TypeInference::Types TypeInference::slice() const {
  WEFT_RETURN_IF_ERROR(expect_operands(1));
  const auto& slice = std::get<SliceAttrs>(attrs);
  WEFT_RETURN_IF_ERROR(expect_length(slice.start, rank(0), "start"));
  WEFT_RETURN_IF_ERROR(expect_length(slice.step, rank(0), "step"));
  WEFT_RETURN_IF_ERROR(expect_length(hint.shape, rank(0), "the result's shape"));
  WEFT_RETURN_IF_ERROR(expect_offsets(slice.start, "start"));
  WEFT_RETURN_IF_ERROR(expect_offsets(slice.step, "step"));
  for (size_t i = 0; i < slice.start.size(); ++i) {
    const int64_t extent = hint.shape[i];
    int64_t last = 0;
    if (slice.step[i] == 0) return fail("step 0 on axis " + std::to_string(i));
    if (extent < 0) return fail("a negative extent on axis " + std::to_string(i));
    if (extent == 0) continue;
    const bool overflow = __builtin_mul_overflow(extent - 1, slice.step[i], &last) ||
                          __builtin_add_overflow(last, slice.start[i], &last);
    const int64_t bound = shape(0)[i];
    if (overflow || slice.start[i] < 0 || slice.start[i] >= bound || last < 0 || last >= bound) {
      return fail("axis " + std::to_string(i) + " from " + std::to_string(slice.start[i]) + " by " +
                  std::to_string(slice.step[i]) + " with extent " + std::to_string(extent) +
                  " leaves the tensor");
    }
  }
  return std::vector<TensorType>{{operand(0).dtype, hint.shape}};
}

TypeInference::Types TypeInference::pad() const {
  WEFT_RETURN_IF_ERROR(expect_operands(2));
  const auto& pad = std::get<PadAttrs>(attrs);
  WEFT_RETURN_IF_ERROR(expect_length(pad.low, rank(0), "low"));
  WEFT_RETURN_IF_ERROR(expect_length(pad.high, rank(0), "high"));
  WEFT_RETURN_IF_ERROR(expect_offsets(pad.low, "low"));
  WEFT_RETURN_IF_ERROR(expect_offsets(pad.high, "high"));
  if (operand(1).dtype != operand(0).dtype || rank(1) != 0) {
    return fail("the fill must be a scalar of the same type");
  }
  Shape result(shape(0).size());
  for (size_t i = 0; i < result.size(); ++i) {
    if (!checked_sum(shape(0)[i], pad.low[i], pad.high[i], &result[i]) || result[i] < 0) {
      return fail("axis " + std::to_string(i) + " cannot grow by " + std::to_string(pad.low[i]) +
                  " and " + std::to_string(pad.high[i]));
    }
  }
  return std::vector<TensorType>{{operand(0).dtype, std::move(result)}};
}

TypeInference::Types TypeInference::concat() const {
  if (operands.empty()) return fail("takes at least one operand");
  const int64_t axis = std::get<ConcatAttrs>(attrs).axis;
  WEFT_RETURN_IF_ERROR(expect_axis(axis, 0));
  TensorType result = operand(0);
  int64_t& extent = result.shape[static_cast<size_t>(axis)];
  for (size_t k = 1; k < operands.size(); ++k) {
    if (operand(k).dtype != result.dtype) return fail("the operands' types differ");
    if (rank(k) != rank(0)) return fail("the operands' ranks differ");
    for (size_t i = 0; i < result.shape.size(); ++i) {
      if (static_cast<int64_t>(i) != axis && shape(k)[i] != result.shape[i]) {
        return fail("the operands' extents differ on axis " + std::to_string(i));
      }
    }
    if (__builtin_add_overflow(extent, shape(k)[static_cast<size_t>(axis)], &extent)) {
      return fail("the result is too large");
    }
  }
  return std::vector<TensorType>{std::move(result)};
}

Status TypeInference::expect_gather_shape(const Shape& result) const {
  // Indices clamp into the data, which is impossible when there is none.
  const std::optional<int64_t> count = element_count(result);
  if (count && *count > 0 && *element_count(shape(0)) == 0) return fail("gathers from nothing");
  return {};
}

TypeInference::Types TypeInference::gather() const {
  WEFT_RETURN_IF_ERROR(expect_operands(2));
  WEFT_RETURN_IF_ERROR(expect_indices(1));
  const auto& gather = std::get<GatherAttrs>(attrs);
  WEFT_RETURN_IF_ERROR(expect_axis(gather.axis, 0));
  const int64_t batch = gather.batch_dims;
  if (batch < 0 || batch > gather.axis || batch > rank(1)) {
    return fail("batch_dims " + std::to_string(batch) + " is out of range");
  }
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i) {
    if (shape(0)[i] != shape(1)[i]) {
      return fail("batch axis " + std::to_string(i) + " differs between data and indices");
    }
  }
  Shape result(shape(0).begin(), shape(0).begin() + gather.axis);
  result.insert(result.end(), shape(1).begin() + batch, shape(1).end());
  result.insert(result.end(), shape(0).begin() + gather.axis + 1, shape(0).end());
  WEFT_RETURN_IF_ERROR(expect_gather_shape(result));
  return std::vector<TensorType>{{operand(0).dtype, std::move(result)}};
}

TypeInference::Types TypeInference::gather_elements() const {
  WEFT_RETURN_IF_ERROR(expect_operands(2));
  WEFT_RETURN_IF_ERROR(expect_indices(1));
  const int64_t axis = std::get<AxisAttrs>(attrs).axis;
  WEFT_RETURN_IF_ERROR(expect_axis(axis, 0));
  if (rank(1) != rank(0)) return fail("data and indices differ in rank");
  for (size_t i = 0; i < shape(0).size(); ++i) {
    if (static_cast<int64_t>(i) != axis && shape(1)[i] > shape(0)[i]) {
      return fail("the indices exceed the data on axis " + std::to_string(i));
    }
  }
  WEFT_RETURN_IF_ERROR(expect_gather_shape(shape(1)));
  return std::vector<TensorType>{{operand(0).dtype, shape(1)}};
}

TypeInference::Types TypeInference::gather_nd() const {
  WEFT_RETURN_IF_ERROR(expect_operands(2));
  WEFT_RETURN_IF_ERROR(expect_indices(1));
  const int64_t batch = std::get<GatherNdAttrs>(attrs).batch_dims;
  if (batch < 0 || batch >= rank(1) || batch > rank(0)) {
    return fail("batch_dims " + std::to_string(batch) + " is out of range");
  }
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i) {
    if (shape(0)[i] != shape(1)[i]) {
      return fail("batch axis " + std::to_string(i) + " differs between data and indices");
    }
  }
  const int64_t depth = shape(1).back();
  if (depth > rank(0) - batch) return fail("the index tuples are longer than the data's rank");
  Shape result(shape(1).begin(), shape(1).end() - 1);
  result.insert(result.end(), shape(0).begin() + batch + depth, shape(0).end());
  WEFT_RETURN_IF_ERROR(expect_gather_shape(result));
  return std::vector<TensorType>{{operand(0).dtype, std::move(result)}};
}

TypeInference::Types TypeInference::scatter_elements() const {
  WEFT_RETURN_IF_ERROR(expect_operands(3));
  WEFT_RETURN_IF_ERROR(expect_indices(1));
  const auto& scatter = std::get<ScatterAttrs>(attrs);
  WEFT_RETURN_IF_ERROR(expect_axis(scatter.axis, 0));
  if (scatter.combines) {
    WEFT_RETURN_IF_ERROR(expect_combiner(scatter.combiner, operand(0).dtype));
  }
  if (operand(2).dtype != operand(0).dtype) return fail("data and updates differ in type");
  if (shape(1) != shape(2)) return fail("indices and updates differ in shape");
  if (rank(1) != rank(0)) return fail("data and indices differ in rank");
  for (size_t i = 0; i < shape(0).size(); ++i) {
    if (static_cast<int64_t>(i) != scatter.axis && shape(1)[i] > shape(0)[i]) {
      return fail("the indices exceed the data on axis " + std::to_string(i));
    }
  }
  if (*element_count(shape(0)) == 0 && *element_count(shape(1)) > 0) {
    return fail("scatters into nothing");
  }
  return std::vector<TensorType>{operand(0)};
}

TypeInference::Types TypeInference::scatter_nd() const {
  WEFT_RETURN_IF_ERROR(expect_operands(3));
  WEFT_RETURN_IF_ERROR(expect_indices(1));
  const auto& scatter = std::get<ScatterAttrs>(attrs);
  if (scatter.combines) {
    WEFT_RETURN_IF_ERROR(expect_combiner(scatter.combiner, operand(0).dtype));
  }
  if (operand(2).dtype != operand(0).dtype) return fail("data and updates differ in type");
  if (rank(1) < 1) return fail("indices need an axis of index tuples");
  const int64_t depth = shape(1).back();
  if (depth > rank(0)) return fail("the index tuples are longer than the data's rank");
  Shape expected(shape(1).begin(), shape(1).end() - 1);
  expected.insert(expected.end(), shape(0).begin() + depth, shape(0).end());
  if (shape(2) != expected) {
    return fail("the updates must be " + print(TensorType{operand(2).dtype, expected}));
  }
  if (*element_count(shape(0)) == 0 && *element_count(shape(2)) > 0) {
    return fail("scatters into nothing");
  }
  return std::vector<TensorType>{operand(0)};
}

}  // namespace weft
