#include "expr/express/express.h"

#include <cstring>

#include "expr/express/express_node.h"

namespace weft {
namespace {

bool is_uniform(const HostTensor& tensor) {
  const auto width = static_cast<size_t>(byte_size(tensor.dtype()));
  const auto bytes = static_cast<size_t>(tensor.bytes());
  return bytes == width ||
         (bytes > width && std::memcmp(tensor.raw(), tensor.raw() + width, bytes - width) == 0);
}

ScalarValue first_element(const HostTensor& tensor) {
  return is_float(tensor.dtype()) ? float_value(tensor.dtype(), tensor.at_double(0))
                                  : int_value(tensor.dtype(), tensor.at_int(0));
}

}  // namespace

ScalarRef ExpressedNode::read(size_t i, std::vector<IndexExpr> indices,
                              std::vector<ScalarRef> runtime) const {
  const TensorId id = tensor_of[static_cast<size_t>(node.operands[i])];
  const Tensor& t = program.tensors[static_cast<size_t>(id)];
  if (t.kind == Tensor::Kind::kConstant && is_uniform(t.value)) {
    return scalar_constant(first_element(t.value));
  }
  return scalar_read(id, t.type.dtype, std::move(indices), std::move(runtime));
}

ScalarRef ExpressedNode::read_here(size_t i) const {
  std::vector<IndexExpr> indices;
  for (int d = 0; d < rank(); ++d) indices.push_back(IndexExpr::var(d));
  return read(i, std::move(indices));
}

TensorExpr ExpressedNode::start() const {
  TensorExpr e;
  e.output = tensor_of[static_cast<size_t>(node.results[0])];
  e.extents = result().shape;
  e.accumulator = result().dtype;
  if (node.origin >= 0) e.origins.push_back(node.origin);
  return e;
}

DType accumulator_type(DType type) {
  return type == DType::kF16 || type == DType::kBF16 ? DType::kF32 : type;
}

ScalarRef scalar_select(const ScalarRef& condition, const ScalarRef& then, const ScalarRef& other) {
  return scalar_apply(ScalarOp::kSelect, {condition, then, other}, then->type);
}
ScalarRef scalar_and(const ScalarRef& a, const ScalarRef& b) {
  return scalar_apply(ScalarOp::kAnd, {a, b}, DType::kBool);
}
ScalarRef scalar_true() { return scalar_constant(int_value(DType::kBool, 1)); }

IndexExpr ReductionAxes::add(int64_t extent) {
  if (extent == 1) return IndexExpr(0);
  empty_ = empty_ || extent == 0;
  expr_.reduce_extents.push_back(extent);
  return IndexExpr::var(expr_.axis_count() - 1);
}

void ReductionAxes::finish(Combiner combiner, DType accumulator, const ScalarRef& body,
                           DType result) {
  if (empty_) {
    expr_.reduce_extents.clear();
    expr_.body = scalar_constant(combiner_identity(combiner, result));
    return;
  }
  if (expr_.reduce_extents.empty()) {
    expr_.body = scalar_convert(body, result);
    return;
  }
  expr_.combiner = combiner;
  expr_.accumulator = accumulator;
  expr_.body = scalar_convert(body, accumulator);
}

namespace {

TensorExpr express_node(const ExpressedNode& n) {
  switch (n.node.op) {
    case GraphOp::kElementwise:
      return express_elementwise(n);
    case GraphOp::kIota:
      return express_iota(n);
    case GraphOp::kBroadcast:
      return express_broadcast(n);
    case GraphOp::kReshape:
      return express_reshape(n);
    case GraphOp::kTranspose:
      return express_transpose(n);
    case GraphOp::kSlice:
      return express_slice(n);
    case GraphOp::kPad:
      return express_pad(n);
    case GraphOp::kConcat:
      return express_concat(n);
    case GraphOp::kGather:
      return express_gather(n);
    case GraphOp::kGatherElements:
      return express_gather_elements(n);
    case GraphOp::kGatherNd:
      return express_gather_nd(n);
    case GraphOp::kReduce:
      return express_reduce(n);
    case GraphOp::kArgReduce:
      return express_arg_reduce(n);
    case GraphOp::kReduceWindow:
      return express_reduce_window(n);
    case GraphOp::kDotGeneral:
      return express_dot_general(n);
    case GraphOp::kConvolution:
      return express_convolution(n);
    default:
      break;
  }
  throw_internal_error(__FILE__, __LINE__, "op", "has no expression");
}

bool is_opaque(GraphOp op) {
  switch (op) {
    case GraphOp::kScatterElements:
    case GraphOp::kScatterNd:
    case GraphOp::kCumulative:
    case GraphOp::kSort:
    case GraphOp::kTopK:
    case GraphOp::kIf:
    case GraphOp::kWhile:
    case GraphOp::kScan:
      return true;
    default:
      return false;
  }
}

class Expression {
 public:
  explicit Expression(const Graph& graph) : graph_(graph), tensor_of_(graph.values.size(), -1) {}

  Result<TensorProgram> run(int depth) {
    if (depth > kMaxRegionDepth) return invalid_input("regions nest too deeply");
    program_.origins = graph_.origins;
    for (const ValueId v : graph_.inputs) program_.inputs.push_back(add(v, Tensor::Kind::kInput));
    for (const Node& node : graph_.nodes) WEFT_RETURN_IF_ERROR(step(node, depth));
    for (const ValueId v : graph_.outputs) {
      const TensorId t = tensor_of_[static_cast<size_t>(v)];
      program_.outputs.push_back(t);
      program_.tensors[static_cast<size_t>(t)].is_output = true;
    }
    program_.output_names = graph_.output_names;
    return std::move(program_);
  }

 private:
  TensorId add(ValueId v, Tensor::Kind kind) {
    const auto id = static_cast<TensorId>(program_.tensors.size());
    Tensor t;
    t.name = graph_.values[static_cast<size_t>(v)].name;
    t.type = graph_.type(v);
    t.kind = kind;
    program_.tensors.push_back(std::move(t));
    tensor_of_[static_cast<size_t>(v)] = id;
    return id;
  }

  Status step(const Node& node, int depth) {
    if (node.op == GraphOp::kConstant) {
      const TensorId t = add(node.results[0], Tensor::Kind::kConstant);
      program_.tensors[static_cast<size_t>(t)].value = std::get<ConstantAttrs>(node.attrs).value;
      return {};
    }
    for (const ValueId v : node.results) add(v, Tensor::Kind::kIntermediate);
    if (is_opaque(node.op)) return opaque(node, depth);
    program_.steps.push_back({false, static_cast<int32_t>(program_.exprs.size())});
    program_.exprs.push_back(express_node({graph_, node, program_, tensor_of_}));
    return {};
  }

  Status opaque(const Node& node, int depth) {
    OpaqueExpr o;
    o.node.op = node.op;
    o.node.attrs = node.attrs;
    o.node.origin = node.origin;
    if (node.origin >= 0) o.origins.push_back(node.origin);
    for (const ValueId v : node.operands) o.operands.push_back(tensor_of_[static_cast<size_t>(v)]);
    for (const ValueId v : node.results) o.results.push_back(tensor_of_[static_cast<size_t>(v)]);
    for (const auto& region : node.regions) {
      WEFT_ASSIGN_OR_RETURN(TensorProgram inner, Expression(*region).run(depth + 1));
      o.regions.push_back(std::make_shared<TensorProgram>(std::move(inner)));
    }
    program_.steps.push_back({true, static_cast<int32_t>(program_.opaques.size())});
    program_.opaques.push_back(std::move(o));
    return {};
  }

  const Graph& graph_;
  std::vector<TensorId> tensor_of_;
  TensorProgram program_;
};

}  // namespace

Result<TensorProgram> express(const Graph& graph) { return Expression(graph).run(0); }

}  // namespace weft
