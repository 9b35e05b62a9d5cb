#include "import/builder/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::onnx {
namespace {

std::string print_shape(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

}  // namespace

GraphBuilder::GraphBuilder(GraphBuilder* parent) : parent_(parent) {
  if (parent != nullptr) iteration_ = kNoValue;
  if (parent == nullptr || parent->graph_.current_origin < 0) return;
  start_origin(parent->graph_.origins[static_cast<size_t>(parent->graph_.current_origin)]);
}

void GraphBuilder::start_origin(Origin origin) {
  graph_.origins.push_back(std::move(origin));
  graph_.current_origin = static_cast<int32_t>(graph_.origins.size()) - 1;
}

void GraphBuilder::name_value(ValueId v, std::string_view name) {
  if (names_.size() < graph_.values.size()) names_.resize(graph_.values.size());
  std::string& held = names_[static_cast<size_t>(v)];
  if (held.empty()) held = name;
}

const TensorType& GraphBuilder::type(ValueId v) const {
  WEFT_CHECK(v >= 0 && static_cast<size_t>(v) < graph_.values.size(), "value of another graph");
  return graph_.type(v);
}

int64_t GraphBuilder::extent(ValueId v, int64_t axis) const {
  return shape(v)[static_cast<size_t>(normal_axis(axis, rank(v)))];
}

int64_t GraphBuilder::size(ValueId v) const { return element_count(shape(v)).value_or(0); }

int64_t GraphBuilder::normal_axis(int64_t axis, int64_t rank, std::string_view what) {
  if (axis < -rank || axis >= rank) {
    refuse_invalid(fmt::format("{} {} is out of range for rank {}", what, axis, rank));
  }
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> GraphBuilder::normal_axes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) axis = normal_axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    refuse_invalid(fmt::format("axes [{}] repeat one", fmt::join(axes, ",")));
  }
  return axes;
}

ValueId GraphBuilder::input(TensorType type, std::string_view name) {
  if (!checked_byte_size(type.dtype, type.shape)) {
    refuse_invalid(
        fmt::format("input '{}' has an impossible shape {}", name, print_shape(type.shape)));
  }
  const ValueId v = graph_.add_input(std::string(name), std::move(type));
  known_.resize(graph_.values.size());
  defined_.resize(graph_.values.size(), -1);
  return v;
}

ValueId GraphBuilder::constant(HostTensor value) {
  TensorType type{value.dtype(), value.shape()};
  return node1(GraphOp::kConstant, ConstantAttrs{std::move(value)}, {}, std::move(type));
}

ValueId GraphBuilder::scalar(DType type, double value) {
  HostTensor tensor(type, {});
  tensor.set_double(0, value);
  return constant(std::move(tensor));
}

ValueId GraphBuilder::scalar_int(DType type, int64_t value) {
  HostTensor tensor(type, {});
  tensor.set_int(0, value);
  return constant(std::move(tensor));
}

ValueId GraphBuilder::constant_ints(const std::vector<int64_t>& values) {
  HostTensor tensor(DType::kI64, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.mutable_data<int64_t>());
  return constant(std::move(tensor));
}

ValueId GraphBuilder::constant_floats(DType type, const std::vector<double>& values, Shape shape) {
  HostTensor tensor(type, std::move(shape));
  WEFT_CHECK(tensor.size() == static_cast<int64_t>(values.size()), "values and shape differ");
  for (size_t i = 0; i < values.size(); ++i) tensor.set_double(static_cast<int64_t>(i), values[i]);
  return constant(std::move(tensor));
}

// By value: a shape of the graph's own moves when the scalar is added to it.
// NOLINTBEGIN(performance-unnecessary-value-param)
ValueId GraphBuilder::full(DType type, Shape shape, double value) {
  return broadcast_to(scalar(type, value), shape);
}

ValueId GraphBuilder::full_int(DType type, Shape shape, int64_t value) {
  return broadcast_to(scalar_int(type, value), shape);
}
// NOLINTEND(performance-unnecessary-value-param)

ValueId GraphBuilder::iota(DType type, Shape shape, int64_t axis) {
  axis = normal_axis(axis, static_cast<int64_t>(shape.size()));
  return node1(GraphOp::kIota, IotaAttrs{axis}, {}, {type, std::move(shape)});
}

Shape GraphBuilder::broadcast_shape(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape result(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t y = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (x != y && x != 1 && y != 1) {
      refuse_invalid(
          fmt::format("shapes {} and {} do not broadcast", print_shape(a), print_shape(b)));
    }
    result[i] = x == 1 ? y : x;
  }
  return result;
}

ValueId GraphBuilder::unary(ScalarOp op, ValueId x) {
  return node1(GraphOp::kElementwise, ElementwiseAttrs{op}, {x}, type(x));
}

ValueId GraphBuilder::binary(ScalarOp op, ValueId a, ValueId b) {
  if (dtype(a) != dtype(b)) {
    refuse_invalid(fmt::format("operands of {} differ in type: {} and {}", scalar_op_name(op),
                               print(type(a)), print(type(b))));
  }
  const Shape to = broadcast_shape(shape(a), shape(b));
  const DType result = scalar_op_is_comparison(op) ? DType::kBool : dtype(a);
  const ValueId x = broadcast_to(a, to);
  const ValueId y = broadcast_to(b, to);
  return node1(GraphOp::kElementwise, ElementwiseAttrs{op}, {x, y}, {result, to});
}

ValueId GraphBuilder::select(ValueId condition, ValueId then, ValueId otherwise) {
  if (dtype(condition) != DType::kBool || dtype(then) != dtype(otherwise)) {
    refuse_invalid(fmt::format("cannot select between {} and {} by {}", print(type(then)),
                               print(type(otherwise)), print(type(condition))));
  }
  const Shape to =
      broadcast_shape(shape(condition), broadcast_shape(shape(then), shape(otherwise)));
  const ValueId c = broadcast_to(condition, to);
  const ValueId x = broadcast_to(then, to);
  const ValueId y = broadcast_to(otherwise, to);
  return node1(GraphOp::kElementwise, ElementwiseAttrs{ScalarOp::kSelect}, {c, x, y},
               {dtype(then), to});
}

ValueId GraphBuilder::convert(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  return node1(GraphOp::kElementwise, ElementwiseAttrs{ScalarOp::kConvert}, {x}, {to, shape(x)});
}

ValueId GraphBuilder::bitcast(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  if (byte_size(dtype(x)) != byte_size(to)) {
    refuse_unsupported(fmt::format("a bit cast from {} to {} changes the width",
                                   dtype_name(dtype(x)), dtype_name(to)));
  }
  // A bool is a byte of 0 or 1.
  if (dtype(x) == DType::kBool || to == DType::kBool) return convert(x, to);
  return node1(GraphOp::kElementwise, ElementwiseAttrs{ScalarOp::kBitcast}, {x}, {to, shape(x)});
}

ValueId GraphBuilder::node1(GraphOp op, Attributes attrs, std::vector<ValueId> operands,
                            TensorType hint) {
  const std::vector<ValueId> results =
      node(op, std::move(attrs), std::move(operands), std::move(hint));
  WEFT_CHECK(results.size() == 1, "a node of one result");
  return results[0];
}

}  // namespace weft::onnx
