#include <fmt/format.h>

#include <algorithm>

#include "import/hlo/permutation.h"
#include "import/hlo/translator.h"

namespace weft::hlo {
namespace {

/// The type in which products are summed: the result's, for those of truth values an integer's.
struct Operands {
  ValueId left, right;
  DType sums;
};

/// Both operands in one type that the sums can be kept in.
Operands matching_operands(InstructionContext& n) {
  n.require(n.operand_count() >= 2, "takes two operands");
  ValueId left = n.operand(0), right = n.operand(1);
  const DType result = n.dtype();
  if (result == DType::kBool) {
    return {n.b.convert(left, DType::kI32), n.b.convert(right, DType::kI32), DType::kI32};
  }
  const bool same = n.b.dtype(left) == n.b.dtype(right);
  if (!same || is_float(n.b.dtype(left)) != is_float(result) || n.b.dtype(left) == DType::kBool) {
    left = n.b.convert(left, result);
    right = n.b.convert(right, result);
  }
  return {left, right, result};
}

void translate_dot(InstructionContext& n) {
  const auto [left, right, sums] = matching_operands(n);
  if (n.find("sparsity")) refuse_unsupported("a product with a sparse operand");
  DotAttrs attrs;
  attrs.lhs_batch = n.ints_or_none("lhs_batch_dims");
  attrs.rhs_batch = n.ints_or_none("rhs_batch_dims");
  attrs.lhs_contract = n.ints_or_none("lhs_contracting_dims");
  attrs.rhs_contract = n.ints_or_none("rhs_contracting_dims");
  n.set_result(n.b.convert(n.b.dot_general(left, right, std::move(attrs), sums), n.dtype()));
}

std::vector<int64_t> axes_of(const AxisLabels& labels) {
  std::vector<int64_t> axes{labels.first, labels.second};
  axes.insert(axes.end(), labels.spatial.begin(), labels.spatial.end());
  return axes;
}

/// [g N, C, …] -> [N, g C, …]: a convolution whose batch falls into groups is one whose channels
/// do.
ValueId batch_groups_to_channels(GraphBuilder& b, ValueId x, int64_t groups) {
  Shape shape = b.shape(x);
  if (groups < 1 || shape[0] % groups != 0) refuse_invalid("the groups do not divide the batch");
  shape[0] /= groups;
  shape.insert(shape.begin(), groups);
  ValueId apart = b.swap_axes(b.reshape(x, shape), 0, 1);
  shape = b.shape(apart);
  shape[1] *= shape[2];
  shape.erase(shape.begin() + 2);
  return b.reshape(apart, shape);
}

ConvolutionAttrs convolution_attrs(const WindowValue& window) {
  ConvolutionAttrs attrs;
  attrs.strides = window.stride;
  attrs.lhs_dilations = window.lhs_dilation;
  attrs.rhs_dilations = window.rhs_dilation;
  for (const PaddingAmount& amount : window.padding) {
    attrs.low.push_back(amount.low);
    attrs.high.push_back(amount.high);
  }
  return attrs;
}

/// Without spatial axes a convolution is a product: it gets an axis of 1.
void add_spatial_axis(WindowValue& window) {
  window.size = window.stride = window.lhs_dilation = window.rhs_dilation = {1};
  window.reversal = {0};
  window.padding = {{}};
}

void translate_convolution(InstructionContext& n) {
  auto [x, w, sums] = matching_operands(n);
  const ConvolutionLabels labels = parse_dim_labels(n.attribute("dim_labels"));
  WindowValue window;
  if (n.find("window")) window = parse_window(n.attribute("window"));
  const size_t spatial = window.size.size();
  const auto rank = static_cast<int64_t>(spatial) + 2;
  n.require(labels.input.spatial.size() == spatial && labels.kernel.spatial.size() == spatial &&
                labels.output.spatial.size() == spatial && n.b.rank(x) == rank &&
                n.b.rank(w) == rank,
            "window, labels and operands differ in their number of axes");
  x = n.b.transpose(x, axes_of(labels.input));
  w = n.b.transpose(w, axes_of(labels.kernel));
  for (size_t i = 0; i < spatial; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    n.require(window.size[i] == n.b.extent(w, axis), "the window's size is not the kernel's");
    if (window.reversal[i] != 0) w = n.b.reverse(w, axis);
  }
  const int64_t batch_groups = n.integer("batch_group_count", 1);
  int64_t groups = n.integer("feature_group_count", 1);
  if (batch_groups != 1) {
    n.require(groups == 1, "groups of both features and batch");
    x = batch_groups_to_channels(n.b, x, batch_groups);
    groups = batch_groups;
  }
  if (spatial == 0) {
    add_spatial_axis(window);
    x = n.b.unsqueeze(x, {2});
    w = n.b.unsqueeze(w, {2});
  }
  ConvolutionAttrs attrs = convolution_attrs(window);
  attrs.groups = groups;
  ValueId y = n.b.convolution(x, w, std::move(attrs), sums);
  if (spatial == 0) y = n.b.squeeze(y, {2});
  n.set_result(
      n.b.convert(n.b.transpose(y, inverse_permutation(axes_of(labels.output))), n.dtype()));
}

const Translator kRows[] = {
    {"dot", translate_dot},
    {"convolution", translate_convolution},
};

}  // namespace

TranslatorTable contraction_translators() { return kRows; }

}  // namespace weft::hlo
