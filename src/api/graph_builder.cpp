// The public graph builder over import/recorded: each call is one of the internal builder's, made
// when the open dimensions have values.

#include "weft/graph_builder.h"

#include <algorithm>
#include <utility>

#include "api/graph_builder_impl.h"
#include "api/handles.h"
#include "import/builder/fourier.h"
#include "import/builder/is_everywhere.h"
#include "import/builder/random_numbers.h"
#include "import/builder/refusal.h"

namespace weft_v1 {

namespace {

using Replay = weft::RecordedGraph::Replay;
using Ids = std::vector<weft::ValueId>;
using Ints = std::vector<int64_t>;

weft::DType to_internal(DType type) { return static_cast<weft::DType>(type); }

Ints at(const Replay& r, const std::vector<Extent>& extents) {
  Ints values;
  for (const Extent& extent : extents) {
    const auto value = extent.value(r.bound);
    if (!value)
      weft::onnx::refuse_invalid("an extent has a dimension that no input has, or overflows");
    values.push_back(*value);
  }
  return values;
}

weft::Combiner combiner_of(const std::string& name) {
  const auto combiner = weft::parse_combiner(name);
  if (!combiner || weft::combiner_is_arg(*combiner))
    weft::onnx::refuse_invalid("there is no combiner '" + name + "'");
  return *combiner;
}

weft::ScatterAttrs scatter_attrs(int64_t axis, const std::optional<std::string>& combiner) {
  weft::ScatterAttrs attrs;
  attrs.axis = axis;
  attrs.combines = combiner.has_value();
  if (combiner) attrs.combiner = combiner_of(*combiner);
  return attrs;
}

/// The entries for `count` axes; `value` for each where none are given.
Ints filled(const Ints& given, size_t count, int64_t value) {
  return given.empty() ? Ints(count, value) : given;
}

Ids elementwise_node(Replay& r, weft::ScalarOp op, const Ids& operands) {
  weft::Shape shape = r.builder.shape(operands.front());
  for (const weft::ValueId v : operands)
    shape = weft::onnx::GraphBuilder::broadcast_shape(shape, r.builder.shape(v));
  Ids spread;
  for (const weft::ValueId v : operands) spread.push_back(r.builder.broadcast_to(v, shape));
  if (op == weft::ScalarOp::kSelect) return {r.builder.select(spread[0], spread[1], spread[2])};
  return {spread.size() == 1 ? r.builder.unary(op, spread[0])
                             : r.builder.binary(op, spread[0], spread[1])};
}

/// The axis of a transform goes last.
weft::onnx::ComplexParts parts_along(Replay& r, Tensor real, std::optional<Tensor> imaginary,
                                     int64_t axis) {
  weft::onnx::ComplexParts x{r.at(real.id), imaginary ? r.at(imaginary->id) : weft::kNoValue};
  const weft::DType type = r.builder.dtype(x.real);
  if (type != weft::DType::kF32 && type != weft::DType::kF64)
    weft::onnx::refuse_invalid("a Fourier transform is of float32 or float64");
  if (imaginary && r.builder.type(x.imaginary) != r.builder.type(x.real))
    weft::onnx::refuse_invalid("the parts of complex numbers have one type and shape");
  // Real numbers that were converted.
  if (imaginary && is_everywhere(r.builder, x.imaginary, 0)) x.imaginary = weft::kNoValue;
  return weft::onnx::exchange_with_last(r.builder, x, axis);
}

}  // namespace

GraphBuilder::GraphBuilder() : impl_(std::make_unique<Impl>()) {}
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&&) noexcept = default;
GraphBuilder::~GraphBuilder() = default;

Tensor GraphBuilder::input(std::string name, DType dtype, std::vector<Extent> shape) {
  weft::DeclaredTensor input{std::move(name), to_internal(dtype), {}};
  input.dims.emplace();
  bool plain = true;
  for (const Extent& extent : shape) {
    const auto number = extent.value({});
    plain = plain && (number ? *number >= 0 : !extent.name().empty());
    input.dims->push_back({number.value_or(-1), std::string(extent.name())});
  }
  if (!plain) {
    return {impl_->graph.record("input " + input.name, 1, [](Replay&) -> Ids {
      weft::onnx::refuse_invalid("an extent of an input is a number or an open dimension");
    })};
  }
  return {impl_->graph.add_input(std::move(input))};
}

Tensor GraphBuilder::constant(DType dtype, std::vector<int64_t> shape,
                              std::span<const std::byte> elements,
                              std::shared_ptr<const void> owner) {
  return {impl_->graph.record("constant", 1, [=](Replay& r) -> Ids {
    const auto bytes = weft::checked_byte_size(to_internal(dtype), shape);
    if (!bytes || static_cast<size_t>(*bytes) != elements.size())
      weft::onnx::refuse_invalid("the elements are not as many bytes as the shape and type say");
    return {r.builder.constant(weft::HostTensor(to_internal(dtype), shape, owner, elements))};
  })};
}

Tensor GraphBuilder::scalar(DType dtype, double value) {
  return {impl_->graph.record("scalar", 1, [=](Replay& r) -> Ids {
    return {r.builder.scalar(to_internal(dtype), value)};
  })};
}

Tensor GraphBuilder::scalar_int(DType dtype, int64_t value) {
  return {impl_->graph.record("scalar_int", 1, [=](Replay& r) -> Ids {
    return {r.builder.scalar_int(to_internal(dtype), value)};
  })};
}

Tensor GraphBuilder::value_of(Extent extent) {
  return {impl_->graph.record("value_of", 1, [extents = std::vector{extent}](Replay& r) -> Ids {
    return {r.builder.scalar_int(weft::DType::kI64, at(r, extents).front())};
  })};
}

Tensor GraphBuilder::iota(DType dtype, std::vector<Extent> shape, int64_t axis) {
  return {impl_->graph.record("iota", 1, [=](Replay& r) -> Ids {
    return {r.builder.iota(to_internal(dtype), at(r, shape), axis)};
  })};
}

Tensor GraphBuilder::random(std::string_view distribution, DType dtype, std::vector<Extent> shape,
                            std::optional<Tensor> seed) {
  const bool is_normal = distribution == "normal", is_uniform = distribution == "uniform";
  return {impl_->graph.record("random", 1, [=](Replay& r) -> Ids {
    if (!is_normal && !is_uniform)
      weft::onnx::refuse_invalid("a distribution is \"uniform\" or \"normal\"");
    if (!weft::is_float(to_internal(dtype)))
      weft::onnx::refuse_invalid("random numbers are floats");
    weft::onnx::GraphBuilder& b = r.builder;
    const auto stream =
        seed ? weft::onnx::new_stream(b, r.at(seed->id)) : weft::onnx::new_stream(b);
    const weft::Shape to = at(r, shape);
    return {is_normal ? weft::onnx::random_normal(b, stream, to_internal(dtype), to)
                      : weft::onnx::random_uniform(b, stream, to_internal(dtype), to)};
  })};
}

Tensor GraphBuilder::elementwise(std::string_view op, std::vector<Tensor> operands) {
  return {impl_->graph.record(std::string(op), 1, [=, name = std::string(op)](Replay& r) -> Ids {
    const auto scalar_op = weft::parse_scalar_op(name);
    if (!scalar_op || name == "convert" || name == "bitcast")
      weft::onnx::refuse_invalid("there is no elementwise operation '" + name + "'");
    if (operands.size() != static_cast<size_t>(weft::scalar_op_arity(*scalar_op)))
      weft::onnx::refuse_invalid("it has another number of operands");
    return elementwise_node(r, *scalar_op, at(r, operands));
  })};
}

Tensor GraphBuilder::convert(Tensor x, DType dtype) {
  return {impl_->graph.record("convert", 1, [=](Replay& r) -> Ids {
    return {r.builder.convert(r.at(x.id), to_internal(dtype))};
  })};
}

Tensor GraphBuilder::bitcast(Tensor x, DType dtype) {
  return {impl_->graph.record("bitcast", 1, [=](Replay& r) -> Ids {
    return {r.builder.bitcast(r.at(x.id), to_internal(dtype))};
  })};
}

Tensor GraphBuilder::broadcast_to(Tensor x, std::vector<Extent> shape) {
  return {impl_->graph.record("broadcast_to", 1, [=](Replay& r) -> Ids {
    return {r.builder.broadcast_to(r.at(x.id), at(r, shape))};
  })};
}

Tensor GraphBuilder::broadcast_in_dim(Tensor x, std::vector<Extent> shape,
                                      std::vector<int64_t> dims) {
  return {impl_->graph.record("broadcast_in_dim", 1, [=](Replay& r) -> Ids {
    return {r.builder.broadcast_in_dim(r.at(x.id), at(r, shape), dims)};
  })};
}

Tensor GraphBuilder::reshape(Tensor x, std::vector<Extent> shape) {
  return {impl_->graph.record("reshape", 1, [=](Replay& r) -> Ids {
    return {r.builder.reshape(r.at(x.id), at(r, shape))};
  })};
}

Tensor GraphBuilder::transpose(Tensor x, std::vector<int64_t> permutation) {
  return {impl_->graph.record("transpose", 1, [=](Replay& r) -> Ids {
    return {r.builder.transpose(r.at(x.id), permutation)};
  })};
}

Tensor GraphBuilder::slice(Tensor x, std::vector<Extent> start, std::vector<int64_t> step,
                           std::vector<Extent> extents) {
  return {impl_->graph.record("slice", 1, [=](Replay& r) -> Ids {
    return {r.builder.slice(r.at(x.id), at(r, start), step, at(r, extents))};
  })};
}

Tensor GraphBuilder::pad(Tensor x, Tensor fill, std::vector<Extent> low, std::vector<Extent> high) {
  return {impl_->graph.record("pad", 1, [=](Replay& r) -> Ids {
    return {r.builder.pad(r.at(x.id), r.at(fill.id), at(r, low), at(r, high))};
  })};
}

Tensor GraphBuilder::concat(std::vector<Tensor> xs, int64_t axis) {
  return {impl_->graph.record(
      "concat", 1, [=](Replay& r) -> Ids { return {r.builder.concat(at(r, xs), axis)}; })};
}

Tensor GraphBuilder::gather(Tensor data, Tensor indices, int64_t axis, int64_t batch_dims) {
  return {impl_->graph.record("gather", 1, [=](Replay& r) -> Ids {
    return {r.builder.gather(r.at(data.id), r.at(indices.id), axis, batch_dims)};
  })};
}

Tensor GraphBuilder::gather_elements(Tensor data, Tensor indices, int64_t axis) {
  return {impl_->graph.record("gather_elements", 1, [=](Replay& r) -> Ids {
    return {r.builder.gather_elements(r.at(data.id), r.at(indices.id), axis)};
  })};
}

Tensor GraphBuilder::gather_nd(Tensor data, Tensor indices, int64_t batch_dims) {
  return {impl_->graph.record("gather_nd", 1, [=](Replay& r) -> Ids {
    return {r.builder.gather_nd(r.at(data.id), r.at(indices.id), batch_dims)};
  })};
}

Tensor GraphBuilder::scatter_elements(Tensor data, Tensor indices, Tensor updates, int64_t axis,
                                      std::optional<std::string> combiner) {
  return {impl_->graph.record("scatter_elements", 1, [=](Replay& r) -> Ids {
    return {r.builder.scatter_elements(r.at(data.id), r.at(indices.id), r.at(updates.id),
                                       scatter_attrs(axis, combiner))};
  })};
}

Tensor GraphBuilder::scatter_nd(Tensor data, Tensor indices, Tensor updates,
                                std::optional<std::string> combiner) {
  return {impl_->graph.record("scatter_nd", 1, [=](Replay& r) -> Ids {
    return {r.builder.scatter_nd(r.at(data.id), r.at(indices.id), r.at(updates.id),
                                 scatter_attrs(0, combiner))};
  })};
}

Tensor GraphBuilder::reduce(std::string_view combiner, Tensor x, std::vector<int64_t> axes,
                            bool keep_dims) {
  return {impl_->graph.record("reduce", 1, [=, name = std::string(combiner)](Replay& r) -> Ids {
    return {r.builder.reduce(combiner_of(name), r.at(x.id), axes, keep_dims)};
  })};
}

Tensor GraphBuilder::arg_reduce(std::string_view combiner, Tensor x, int64_t axis, bool keep_dims) {
  return {impl_->graph.record("arg_reduce", 1, [=, name = std::string(combiner)](Replay& r) -> Ids {
    if (name != "min" && name != "max")
      weft::onnx::refuse_invalid("the position of '" + name + "' is not defined");
    const auto by = name == "min" ? weft::Combiner::kArgMin : weft::Combiner::kArgMax;
    return {r.builder.arg_reduce(by, r.at(x.id), axis, keep_dims)};
  })};
}

Tensor GraphBuilder::reduce_window(std::string_view combiner, Tensor x, WindowAxes axes) {
  return {
      impl_->graph.record("reduce_window", 1, [=, name = std::string(combiner)](Replay& r) -> Ids {
        const size_t rank = r.builder.shape(r.at(x.id)).size();
        weft::WindowAttrs attrs;
        attrs.window = filled(axes.window, rank, 1);
        attrs.strides = filled(axes.strides, rank, 1);
        attrs.dilations = filled(axes.dilations, rank, 1);
        attrs.low = filled(axes.low, rank, 0);
        attrs.high = filled(axes.high, rank, 0);
        attrs.combiner = combiner_of(name);
        return {r.builder.reduce_window(r.at(x.id), attrs)};
      })};
}

Tensor GraphBuilder::cumulative(std::string_view combiner, Tensor x, int64_t axis) {
  return {impl_->graph.record("cumulative", 1, [=, name = std::string(combiner)](Replay& r) -> Ids {
    weft::CumulativeAttrs attrs;
    attrs.axis = weft::onnx::GraphBuilder::normal_axis(axis, r.builder.rank(r.at(x.id)));
    attrs.combiner = combiner_of(name);
    return {r.builder.cumulative(r.at(x.id), attrs)};
  })};
}

Tensor GraphBuilder::dot_general(Tensor a, Tensor b, DotAxes axes, DType result) {
  return {impl_->graph.record("dot_general", 1, [=](Replay& r) -> Ids {
    const weft::DotAttrs attrs{axes.lhs_batch, axes.rhs_batch, axes.lhs_contract,
                               axes.rhs_contract};
    return {r.builder.dot_general(r.at(a.id), r.at(b.id), attrs, to_internal(result))};
  })};
}

Tensor GraphBuilder::convolution(Tensor x, Tensor w, WindowAxes axes, DType result) {
  return {impl_->graph.record("convolution", 1, [=](Replay& r) -> Ids {
    const size_t rank = r.builder.shape(r.at(x.id)).size();
    const size_t spatial = rank < 2 ? 0 : rank - 2;
    weft::ConvolutionAttrs attrs;
    attrs.strides = filled(axes.strides, spatial, 1);
    attrs.low = filled(axes.low, spatial, 0);
    attrs.high = filled(axes.high, spatial, 0);
    attrs.lhs_dilations = filled(axes.input_dilations, spatial, 1);
    attrs.rhs_dilations = filled(axes.dilations, spatial, 1);
    attrs.groups = axes.groups;
    return {r.builder.convolution(r.at(x.id), r.at(w.id), attrs, to_internal(result))};
  })};
}

std::pair<Tensor, Tensor> GraphBuilder::fourier(Tensor real, std::optional<Tensor> imaginary,
                                                int64_t axis, bool inverse, int64_t bins) {
  const int32_t first = impl_->graph.record("fourier", 2, [=](Replay& r) -> Ids {
    weft::onnx::GraphBuilder& b = r.builder;
    weft::onnx::ComplexParts x = parts_along(r, real, imaginary, axis);
    const int64_t points = b.extent(x.real, -1);
    if (bins < 0 || bins > points)
      weft::onnx::refuse_invalid("a Fourier transform has as many bins as points");
    x = weft::onnx::fourier_transform(b, x, {points, bins == 0 ? points : bins}, inverse);
    x = weft::onnx::exchange_with_last(b, x, axis);
    return {x.real, x.imaginary};
  });
  return {{first}, {first + 1}};
}

Tensor GraphBuilder::real_fourier_inverse(Tensor real, Tensor imaginary, int64_t axis,
                                          int64_t length) {
  return {impl_->graph.record("real_fourier_inverse", 1, [=](Replay& r) -> Ids {
    weft::onnx::GraphBuilder& b = r.builder;
    const weft::onnx::ComplexParts x = parts_along(r, real, imaginary, axis);
    if (b.extent(x.real, -1) != length / 2 + 1)
      weft::onnx::refuse_invalid("a signal of n comes from n / 2 + 1 bins");
    const weft::ValueId signal = weft::onnx::real_fourier_inverse(b, x, length);
    return {weft::onnx::exchange_with_last(b, {signal}, axis).real};
  })};
}

std::pair<Tensor, Tensor> GraphBuilder::sort(Tensor x, int64_t axis, bool descending) {
  const int32_t first = impl_->graph.record("sort", 2, [=](Replay& r) -> Ids {
    const auto [values, positions] = r.builder.sort(r.at(x.id), axis, descending);
    return {values, positions};
  });
  return {{first}, {first + 1}};
}

std::pair<Tensor, Tensor> GraphBuilder::top_k(Tensor x, int64_t k, int64_t axis, bool largest) {
  const int32_t first = impl_->graph.record("top_k", 2, [=](Replay& r) -> Ids {
    weft::TopKAttrs attrs;
    attrs.axis = weft::onnx::GraphBuilder::normal_axis(axis, r.builder.rank(r.at(x.id)));
    attrs.k = k;
    attrs.largest = largest;
    const auto [values, positions] = r.builder.top_k(r.at(x.id), attrs);
    return {values, positions};
  });
  return {{first}, {first + 1}};
}

void GraphBuilder::begin_origin(std::string name, std::string op) {
  impl_->graph.begin_origin({std::move(name), std::move(op)});
}

void GraphBuilder::output(Tensor x, std::string name) {
  impl_->graph.add_output(x.id, std::move(name));
}

Result<Model> GraphBuilder::finish(const std::map<std::string, int64_t>& example) {
  auto graph = std::make_shared<weft::RecordedGraph>(std::exchange(impl_->graph, {}));
  weft::ImportOptions options;
  options.bind = example;
  const auto built = graph->build(options);
  if (!built.ok()) return to_public(built.error());
  std::vector<weft::DeclaredTensor> outputs;
  for (size_t i = 0; i < built->graph.outputs.size(); ++i) {
    const weft::TensorType& type = built->graph.type(built->graph.outputs[i]);
    weft::DeclaredTensor& output =
        outputs.emplace_back(built->graph.output_names[i], type.dtype, std::nullopt);
    if (graph->has_open_dimensions()) continue;
    output.dims.emplace();
    for (const int64_t extent : type.shape) output.dims->push_back({extent, {}});
  }
  const std::vector<weft::DeclaredTensor> inputs = graph->inputs();
  return Bridge::make_model(weft::ModelSource(std::move(graph)), inputs, outputs);
}

}  // namespace weft_v1
