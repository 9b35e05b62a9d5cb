#include "graph/type_inference.h"

namespace weft {
namespace {

/// Sums are kept in the kind of number that is summed.
bool accumulates_in(DType operand, DType result) {
  return is_float(operand) ? is_float(result) : is_integer(operand) && is_integer(result);
}

}  // namespace

TypeInference::Types TypeInference::dot_general() const {
  WEFT_RETURN_IF_ERROR(expect_operands(2));
  const auto& dot = std::get<DotAttrs>(attrs);
  if (operand(0).dtype != operand(1).dtype) return fail("the operands' types differ");
  if (!accumulates_in(operand(0).dtype, hint.dtype)) {
    return fail("cannot accumulate in " + std::string(dtype_name(hint.dtype)));
  }
  if (dot.lhs_batch.size() != dot.rhs_batch.size() ||
      dot.lhs_contract.size() != dot.rhs_contract.size()) {
    return fail("the operands' batch or contracted axes differ in number");
  }
  Shape result;
  Shape free;
  for (size_t side : {0, 1}) {
    const std::vector<int64_t>& batch = side == 0 ? dot.lhs_batch : dot.rhs_batch;
    const std::vector<int64_t>& contract = side == 0 ? dot.lhs_contract : dot.rhs_contract;
    std::vector<int64_t> used = batch;
    used.insert(used.end(), contract.begin(), contract.end());
    WEFT_RETURN_IF_ERROR(expect_axes(used, side, side == 0 ? "left" : "right"));
    std::vector<bool> is_used(shape(side).size());
    for (int64_t axis : used) is_used[static_cast<size_t>(axis)] = true;
    for (size_t i = 0; i < is_used.size(); ++i) {
      if (!is_used[i]) free.push_back(shape(side)[i]);
    }
  }
  const auto same_extent = [&](int64_t a, int64_t b) {
    return shape(0)[static_cast<size_t>(a)] == shape(1)[static_cast<size_t>(b)];
  };
  for (size_t i = 0; i < dot.lhs_batch.size(); ++i) {
    if (!same_extent(dot.lhs_batch[i], dot.rhs_batch[i])) return fail("a batch extent differs");
    result.push_back(shape(0)[static_cast<size_t>(dot.lhs_batch[i])]);
  }
  for (size_t i = 0; i < dot.lhs_contract.size(); ++i) {
    if (!same_extent(dot.lhs_contract[i], dot.rhs_contract[i])) {
      return fail("a contracted extent differs");
    }
  }
  result.insert(result.end(), free.begin(), free.end());
  return std::vector<TensorType>{{hint.dtype, std::move(result)}};
}

TypeInference::Types TypeInference::convolution() const {
  WEFT_RETURN_IF_ERROR(expect_operands(2));
  const auto& conv = std::get<ConvolutionAttrs>(attrs);
  if (operand(0).dtype != operand(1).dtype) return fail("the operands' types differ");
  if (!accumulates_in(operand(0).dtype, hint.dtype)) {
    return fail("cannot accumulate in " + std::string(dtype_name(hint.dtype)));
  }
  if (rank(0) < 3 || rank(1) != rank(0)) return fail("needs x [N,C,spatial..] and w of its rank");
  const int64_t spatial = rank(0) - 2;
  WEFT_RETURN_IF_ERROR(expect_length(conv.strides, spatial, "strides"));
  WEFT_RETURN_IF_ERROR(expect_length(conv.low, spatial, "low"));
  WEFT_RETURN_IF_ERROR(expect_length(conv.high, spatial, "high"));
  WEFT_RETURN_IF_ERROR(expect_length(conv.lhs_dilations, spatial, "lhs_dilations"));
  WEFT_RETURN_IF_ERROR(expect_length(conv.rhs_dilations, spatial, "rhs_dilations"));
  const int64_t channels = shape(0)[1];
  const int64_t features = shape(1)[0];
  if (conv.groups < 1 || channels % conv.groups != 0 || features % conv.groups != 0 ||
      channels / conv.groups != shape(1)[1]) {
    return fail(std::to_string(conv.groups) + " groups do not divide the channels");
  }
  Shape result = {shape(0)[0], features};
  for (size_t i = 0; i < static_cast<size_t>(spatial); ++i) {
    const std::optional<int64_t> extent =
        windowed_extent({shape(0)[i + 2], shape(1)[i + 2], conv.strides[i], conv.low[i],
                         conv.high[i], conv.lhs_dilations[i], conv.rhs_dilations[i]});
    if (!extent) return fail("the window on spatial axis " + std::to_string(i) + " makes no sense");
    result.push_back(*extent);
  }
  return std::vector<TensorType>{{hint.dtype, std::move(result)}};
}

}  // namespace weft
