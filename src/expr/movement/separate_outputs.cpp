#include "expr/movement/separate_outputs.h"

#include <set>

#include "expr/new_tensors.h"

namespace weft {

namespace {

/// A tensor with the elements of `from`, of the shape that kernels see.
TensorId copied(TensorProgram& program, TensorId from, NewTensors& tensors) {
  const Tensor like = program.tensors[static_cast<size_t>(from)];
  const TensorId to = tensors.add(like.name, like.type, Tensor::Kind::kIntermediate);
  program.tensors[static_cast<size_t>(to)].declared = like.declared;
  TensorExpr copy;
  copy.output = to;
  copy.extents = like.type.shape;
  copy.accumulator = like.type.dtype;
  std::vector<IndexExpr> indices;
  for (size_t d = 0; d < copy.extents.size(); ++d)
    indices.push_back(IndexExpr::var(static_cast<int>(d)));
  copy.body = scalar_read(from, like.type.dtype, std::move(indices));
  const auto maker = tensor_uses(program).producer[static_cast<size_t>(from)];
  if (maker >= 0 && !program.steps[static_cast<size_t>(maker)].opaque) {
    const auto e = static_cast<size_t>(program.steps[static_cast<size_t>(maker)].index);
    copy.origins = program.exprs[e].origins;
    copy.open = program.exprs[e].open;
    copy.open.resize(copy.open.empty() ? 0 : copy.extents.size());
  }
  program.steps.push_back({false, static_cast<int32_t>(program.exprs.size())});
  program.exprs.push_back(std::move(copy));
  return to;
}

void separate(TensorProgram& body) {
  NewTensors tensors(body);
  std::set<TensorId> taken;
  for (TensorId& output : body.outputs) {
    const bool made = body.tensors[static_cast<size_t>(output)].kind == Tensor::Kind::kIntermediate;
    if (made && taken.insert(output).second) continue;
    body.tensors[static_cast<size_t>(output)].is_output = made;
    output = copied(body, output, tensors);
    body.tensors[static_cast<size_t>(output)].is_output = true;
  }
}

}  // namespace

void separate_outputs(TensorProgram& program) {
  for (OpaqueExpr& o : program.opaques) {
    for (auto& region : o.regions) separate_outputs(*region);
    if (o.node.op == GraphOp::kScan) separate(*o.regions.back());
  }
}

}  // namespace weft
