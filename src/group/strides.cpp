#include "group/strides.h"

#include <algorithm>
#include <optional>

namespace weft {

namespace {

/// Elements between neighbours along a variable, from the indices one by one: of row-major tensors
/// read at sums, as most are. Nothing where it takes the offset as a whole to tell.
std::optional<int64_t> row_major_stride(const Tensor& tensor, const std::vector<IndexExpr>& indices,
                                        int var) {
  if (!tensor.layout.is_row_major()) return std::nullopt;
  int64_t out = 0, stride = 1;
  for (size_t d = indices.size(); d-- > 0;) {
    if (indices[d].is_var()) {
      if (indices[d].var_id() == var) out += stride;
    } else if (!indices[d].is_const()) {
      AffineForm form;
      if (!as_affine(indices[d], &form)) return std::nullopt;
      out += stride * form.coefficient(var);
    }
    stride *= tensor.type.shape[d];
  }
  return out;
}

}  // namespace

int64_t stride_along(const TensorProgram& program, const GroupAxes& axes, int position,
                     const Scalar& read, int axis) {
  const Tensor& tensor = program.tensors[static_cast<size_t>(read.symbol)];
  int own = -1;
  const auto& list = axes.axis_of[static_cast<size_t>(position)];
  for (size_t a = 0; a < list.size(); ++a) {
    if (list[a] == axis) own = static_cast<int>(a);
  }
  if (own < 0) return 0;
  bool used = false;
  for (const IndexExpr& e : read.indices) used |= uses_var(e, own);
  for (const ScalarRef& o : read.operands) {
    visit(o, [&](const Scalar& s) {
      for (const IndexExpr& e : s.indices) used |= uses_var(e, own);
    });
  }
  if (!used) return 0;
  if (axes.axes[static_cast<size_t>(axis)].extent > 1) {
    if (const auto c = row_major_stride(tensor, read.indices, own))
      return *c == 0 ? -1 : std::abs(*c);
  }
  // Where the others lie does not matter.
  std::vector<IndexExpr> along = read.indices;
  for (IndexExpr& index : along) {
    if (!uses_var(index, own)) index = 0;
  }
  const IndexExpr offset =
      element_offset(tensor.layout, tensor.type.shape, along, [&](int id) -> Interval {
        if (id >= kRuntimeIndexBase) return kUnbounded;
        return {0, axes.axes[static_cast<size_t>(list[static_cast<size_t>(id)])].extent - 1};
      });
  AffineForm form;
  if (!as_affine(offset, &form)) return -1;
  const int64_t c = form.coefficient(own);
  return c == 0 ? -1 : std::abs(c);
}

bool crosses(const TensorProgram& program, const GroupAxes& axes, int position, const Scalar& read,
             int axis, int cross) {
  if (!read.operands.empty() || read.fill != nullptr) return false;
  const int64_t stride = stride_along(program, axes, position, read, axis);
  return stride != 0 && stride != 1 && stride_along(program, axes, position, read, cross) == 1;
}

int64_t output_stride_along(const TensorProgram& program, const GroupAxes& axes, const Group& group,
                            int position, int axis) {
  const TensorExpr& e =
      program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(position)])];
  const Tensor& tensor = program.tensors[static_cast<size_t>(e.output)];
  const auto& list = axes.axis_of[static_cast<size_t>(position)];
  std::vector<IndexExpr> indices;
  int own = -1;
  for (int d = 0; d < e.output_rank(); ++d) {
    indices.push_back(IndexExpr::var(d));
    if (list[static_cast<size_t>(d)] == axis) own = d;
  }
  if (own < 0) return 0;
  if (e.range(own).hi > 0) {
    if (const auto c = row_major_stride(tensor, indices, own)) return *c;
  }
  AffineForm form;
  const IndexExpr offset = element_offset(tensor.layout, tensor.type.shape, indices,
                                          [&](int id) { return e.range(id); });
  return as_affine(offset, &form) ? form.coefficient(own) : -1;
}

}  // namespace weft
