#include "expr/movement/separate_outputs.h"

#include <set>

#include "expr/movement/copy_tensor.h"
#include "expr/new_tensors.h"

namespace weft {

namespace {

/// A tensor with the elements of `from`, of the shape that kernels see.
TensorId copied(TensorProgram& program, TensorId from, NewTensors& tensors) {
  const Tensor like = program.tensors[static_cast<size_t>(from)];
  const TensorId to = tensors.add(like.name, like.type, Tensor::Kind::kIntermediate);
  program.tensors[static_cast<size_t>(to)].declared = like.declared;
  TensorExpr copy = copy_of(program, from, to);
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
