#include "expr/movement/remove_dead_expressions.h"

namespace weft {

bool remove_dead_expressions(TensorProgram& program) {
  std::vector<bool> live(program.tensors.size(), false);
  for (const TensorId t : program.outputs) live[static_cast<size_t>(t)] = true;
  std::vector<bool> kept_step(program.steps.size(), false);
  for (size_t s = program.steps.size(); s-- > 0;) {
    const TensorProgram::Step& step = program.steps[s];
    const auto index = static_cast<size_t>(step.index);
    if (step.opaque) {
      const OpaqueExpr& o = program.opaques[index];
      for (const TensorId t : o.results)
        kept_step[s] = kept_step[s] || live[static_cast<size_t>(t)];
      if (!kept_step[s]) continue;
      for (const TensorId t : o.operands) live[static_cast<size_t>(t)] = true;
      // A result that nothing reads is still written.
      for (const TensorId t : o.results) live[static_cast<size_t>(t)] = true;
    } else {
      const TensorExpr& e = program.exprs[index];
      kept_step[s] = live[static_cast<size_t>(e.output)];
      if (!kept_step[s]) continue;
      visit(e.body, [&](const Scalar& node) {
        if (node.kind == Scalar::Kind::kRead) live[static_cast<size_t>(node.symbol)] = true;
      });
    }
  }
  for (const TensorId t : program.inputs) live[static_cast<size_t>(t)] = true;

  std::vector<TensorId> new_id(program.tensors.size(), -1);
  std::vector<Tensor> tensors;
  for (size_t t = 0; t < live.size(); ++t) {
    if (!live[t]) continue;
    new_id[t] = static_cast<TensorId>(tensors.size());
    tensors.push_back(std::move(program.tensors[t]));
  }
  const bool changed = tensors.size() != program.tensors.size();
  program.tensors = std::move(tensors);
  if (!changed) return false;

  const auto renamed = [&](TensorId& t) { t = new_id[static_cast<size_t>(t)]; };
  const std::function<ScalarRef(const ScalarRef&)> moved = [&](const ScalarRef& read) {
    const TensorId to = new_id[static_cast<size_t>(read->symbol)];
    if (to == read->symbol) return read;
    return scalar_read(to, read->type, read->indices, read->operands, read->fill);
  };
  std::vector<TensorExpr> exprs;
  std::vector<OpaqueExpr> opaques;
  std::vector<TensorProgram::Step> steps;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    if (!kept_step[s]) continue;
    const TensorProgram::Step& step = program.steps[s];
    const auto index = static_cast<size_t>(step.index);
    if (step.opaque) {
      steps.push_back({true, static_cast<int32_t>(opaques.size())});
      opaques.push_back(std::move(program.opaques[index]));
      for (TensorId& t : opaques.back().operands) renamed(t);
      for (TensorId& t : opaques.back().results) renamed(t);
    } else {
      steps.push_back({false, static_cast<int32_t>(exprs.size())});
      exprs.push_back(std::move(program.exprs[index]));
      renamed(exprs.back().output);
      exprs.back().body = rewrite(exprs.back().body, {}, moved);
    }
  }
  for (TensorId& t : program.inputs) renamed(t);
  for (TensorId& t : program.outputs) renamed(t);
  program.exprs = std::move(exprs);
  program.opaques = std::move(opaques);
  program.steps = std::move(steps);
  return true;
}

}  // namespace weft
