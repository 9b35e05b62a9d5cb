#include "expr/element_program.h"

#include <algorithm>

#include "support/check.h"

namespace weft {

ElementProgram::ElementProgram(const TensorExpr& expr, const std::vector<HostTensor>& values) {
  root_ = add(expr.body, values);
}

ElementProgram::Index ElementProgram::prepared(const IndexExpr& index) {
  Index out;
  out.expr = index;
  if (index.is_var() && index.var_id() >= kRuntimeIndexBase) {
    out.runtime = index.var_id() - kRuntimeIndexBase;
  } else {
    out.affine = as_affine(index, &out.form);
  }
  return out;
}

int ElementProgram::add(const ScalarRef& s, const std::vector<HostTensor>& values) {
  Node node;
  node.scalar = s.get();
  for (const ScalarRef& o : s->operands) node.operands.push_back(add(o, values));
  if (s->fill) node.fill = add(s->fill, values);
  if (s->kind == Scalar::Kind::kIndex) node.indices.push_back(prepared(s->index));
  if (s->kind == Scalar::Kind::kRead) {
    for (const IndexExpr& index : s->indices) node.indices.push_back(prepared(index));
    node.from = &values[static_cast<size_t>(s->symbol)];
    node.is_float = is_float(s->type);
  }
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

int64_t ElementProgram::index_value(const Index& index, const std::vector<int64_t>& point) {
  if (!index.affine) {
    return evaluate(index.expr, [&](int id) { return point[static_cast<size_t>(id)]; });
  }
  int64_t sum = index.form.constant;
  for (const auto& [id, c] : index.form.terms) sum += c * point[static_cast<size_t>(id)];
  return sum;
}

ScalarValue ElementProgram::read(const Node& node, const std::vector<int64_t>& point) {
  const Shape& shape = node.from->shape();
  int64_t offset = 0;
  bool inside = true;
  for (size_t a = 0; a < shape.size(); ++a) {
    const Index& index = node.indices[a];
    int64_t i = 0;
    if (index.runtime >= 0) {
      const ScalarValue v = value(node.operands[static_cast<size_t>(index.runtime)], point);
      const bool huge = v.type == DType::kU64 && v.i < 0;
      i = huge ? shape[a] - 1 : std::clamp<int64_t>(v.i, 0, shape[a] - 1);
    } else {
      i = index_value(index, point);
    }
    inside = inside && i >= 0 && i < shape[a];
    offset = offset * shape[a] + i;
  }
  if (!inside) {
    if (node.fill >= 0) return value(node.fill, point);
    outside_ = true;
    return node.is_float ? float_value(node.scalar->type, 0) : int_value(node.scalar->type, 0);
  }
  return node.is_float ? float_value(node.scalar->type, node.from->at_double(offset))
                       : int_value(node.scalar->type, node.from->at_int(offset));
}

ScalarValue ElementProgram::apply(const Node& node, const std::vector<int64_t>& point) {
  const Scalar& s = *node.scalar;
  if (s.op == ScalarOp::kSelect) {
    return value(node.operands[value(node.operands[0], point).i != 0 ? 1 : 2], point);
  }
  ScalarValue operands[3];
  for (size_t i = 0; i < node.operands.size(); ++i) operands[i] = value(node.operands[i], point);
  if (s.type == DType::kF32 && s.op == ScalarOp::kMul) {
    return float_value(s.type,
                       static_cast<float>(operands[0].f) * static_cast<float>(operands[1].f));
  }
  return evaluate_scalar(s.op, std::span(operands, node.operands.size()), s.type);
}

ScalarValue ElementProgram::value(int index, const std::vector<int64_t>& point) {
  const Node& node = nodes_[static_cast<size_t>(index)];
  const Scalar& s = *node.scalar;
  switch (s.kind) {
    case Scalar::Kind::kConstant:
      return s.value;
    case Scalar::Kind::kIndex:
      return convert_value(int_value(DType::kI64, index_value(node.indices[0], point)), s.type);
    case Scalar::Kind::kRead:
      return read(node, point);
    case Scalar::Kind::kApply:
      return apply(node, point);
  }
  throw_internal_error(__FILE__, __LINE__, "scalar", "of no kind");
}

}  // namespace weft
