#include "expr/movement/copy_tensor.h"

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

}  // namespace weft
