#include "expr/movement/copy_tensor.h"

#include <algorithm>

namespace weft {

TensorExpr copy_of(const TensorProgram& program, TensorId from, TensorId to) {
  const TensorType& type = program.tensors[static_cast<size_t>(from)].type;
  TensorExpr copy;
  copy.output = to;
  copy.extents = type.shape;
  copy.accumulator = type.dtype;
  std::vector<IndexExpr> indices;
  for (size_t d = 0; d < copy.extents.size(); ++d)
    indices.push_back(IndexExpr::var(static_cast<int>(d)));
  copy.body = scalar_read(from, type.dtype, std::move(indices));
  const auto maker = tensor_uses(program).producer[static_cast<size_t>(from)];
  if (maker >= 0 && !program.steps[static_cast<size_t>(maker)].opaque) {
    const auto e = static_cast<size_t>(program.steps[static_cast<size_t>(maker)].index);
    copy.origins = program.exprs[e].origins;
    copy.open = program.exprs[e].open;
    copy.open.resize(copy.open.empty() ? 0 : copy.extents.size());
  }
  return copy;
}

void add_copy(TensorProgram& program, TensorId from, TensorId to) {
  const int32_t producer = tensor_uses(program).producer[static_cast<size_t>(from)];
  const TensorProgram::Step step{false, static_cast<int32_t>(program.exprs.size())};
  program.exprs.push_back(copy_of(program, from, to));
  program.steps.insert(program.steps.begin() + producer + 1, step);
}

std::vector<int64_t> axes_in_memory(const Tensor& tensor) {
  std::vector<int64_t> order;
  for (size_t a = 0; tensor.layout.is_row_major() && a < tensor.type.shape.size(); ++a)
    order.push_back(static_cast<int64_t>(a));
  for (const Layout::Axis& part : tensor.layout.axes) {
    std::erase(order, part.axis);
    order.push_back(part.axis);
  }
  return order;
}

TensorId add_copy_in_order(TensorProgram& program, NewTensors& new_tensors, TensorId from,
                           const std::string& suffix, const std::vector<int64_t>& order) {
  const std::string name = program.tensors[static_cast<size_t>(from)].name + suffix;
  const TensorType type = program.tensors[static_cast<size_t>(from)].type;
  const TensorId copy = new_tensors.add(name, type, Tensor::Kind::kIntermediate);
  if (!std::ranges::is_sorted(order))
    program.tensors[static_cast<size_t>(copy)].layout = permuted_layout(type.shape, order);
  add_copy(program, from, copy);
  return copy;
}

}  // namespace weft
