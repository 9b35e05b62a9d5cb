#include "expr/movement/copy_tensor.h"

#include <algorithm>
#include <map>
#include <utility>

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

std::vector<bool> have_types_of_model(const TensorProgram& program) {
  std::vector<bool> out;
  for (const Tensor& t : program.tensors)
    out.push_back(t.kind != Tensor::Kind::kIntermediate || t.is_output);
  for (const OpaqueExpr& o : program.opaques) {
    for (const TensorId t : o.operands) out[static_cast<size_t>(t)] = true;
    for (const TensorId t : o.results) out[static_cast<size_t>(t)] = true;
  }
  return out;
}

void read_copies(TensorProgram& program, const std::string& suffix, std::optional<DType> type,
                 const std::function<std::vector<TensorId>(const TensorExpr&)>& copied) {
  NewTensors new_tensors(program);
  std::map<TensorId, TensorId> copies;
  std::vector<TensorProgram::Step> steps;
  const auto add = [&](TensorId from, const TensorExpr& reader) {
    const Tensor& tensor = program.tensors[static_cast<size_t>(from)];
    const TensorType made{type.value_or(tensor.type.dtype), tensor.type.shape};
    const TensorId copy = new_tensors.add(tensor.name + suffix, made, Tensor::Kind::kIntermediate);
    TensorExpr e = copy_of(program, from, copy);
    e.body = scalar_convert(e.body, made.dtype);
    e.accumulator = made.dtype;
    e.origins = reader.origins;  // for which it is made
    steps.push_back({false, static_cast<int32_t>(program.exprs.size())});
    program.exprs.push_back(std::move(e));
    return copy;
  };
  for (const TensorProgram::Step step : program.steps) {
    const auto at = static_cast<size_t>(step.index);
    if (!step.opaque && program.exprs[at].is_contraction) {
      const std::vector<TensorId> read = copied(program.exprs[at]);
      for (const TensorId t : read) {
        if (!copies.contains(t)) copies[t] = add(t, program.exprs[at]);
      }
      TensorExpr& e = program.exprs[at];
      e.body = rewrite(e.body, {}, [&](const ScalarRef& r) {
        if (std::ranges::find(read, r->symbol) == read.end()) return r;
        const DType of = type.value_or(r->type);
        return scalar_read(copies.at(r->symbol), of, r->indices, r->operands, r->fill);
      });
    }
    steps.push_back(step);
  }
  program.steps = std::move(steps);
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
