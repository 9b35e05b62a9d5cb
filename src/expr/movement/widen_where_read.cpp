#include "expr/movement/widen_where_read.h"

#include <algorithm>
#include <iterator>

#include "expr/movement/remove_dead_expressions.h"

namespace weft {

namespace {

/// The read that a body widens; null where it does something else.
ScalarRef widened_read(const TensorExpr& e) {
  const ScalarRef& body = e.body;
  if (!e.reduce_extents.empty() || e.is_contraction || body->kind != Scalar::Kind::kApply ||
      body->op != ScalarOp::kConvert)
    return nullptr;
  const ScalarRef& read = body->operands[0];
  const bool plain = read->kind == Scalar::Kind::kRead && read->operands.empty() && !read->fill;
  const bool widens =
      is_float(body->type) && is_float(read->type) && byte_size(read->type) < byte_size(body->type);
  return plain && widens ? read : nullptr;
}

/// Whether all that reads the tensor can read another in its place.
bool has_plain_readers(const TensorProgram& program, const TensorUses& uses, TensorId t) {
  const std::vector<int32_t>& readers = uses.consumers[static_cast<size_t>(t)];
  return !readers.empty() && std::ranges::all_of(readers, [&](int32_t s) {
    const TensorProgram::Step& step = program.steps[static_cast<size_t>(s)];
    if (step.opaque) return false;
    bool plain = true;
    visit(program.exprs[static_cast<size_t>(step.index)].body, [&](const Scalar& r) {
      plain &= r.kind != Scalar::Kind::kRead || r.symbol != t || !r.fill;
    });
    return plain;
  });
}

}  // namespace

bool widen_where_read(TensorProgram& program) {
  const TensorUses uses = tensor_uses(program);
  bool changed = false;
  for (const TensorProgram::Step step : std::vector(program.steps)) {
    if (step.opaque) continue;
    const TensorExpr made = program.exprs[static_cast<size_t>(step.index)];
    const ScalarRef source = widened_read(made);
    if (!source || program.tensors[static_cast<size_t>(made.output)].is_output) continue;
    if (!has_plain_readers(program, uses, made.output)) continue;
    for (const int32_t s : uses.consumers[static_cast<size_t>(made.output)]) {
      const TensorProgram::Step& at = program.steps[static_cast<size_t>(s)];
      TensorExpr& reader = program.exprs[static_cast<size_t>(at.index)];
      reader.body = rewrite(reader.body, IndexExpr::var, [&](const ScalarRef& read) {
        if (read->symbol != made.output) return read;
        auto narrow = std::make_shared<Scalar>(*read);
        narrow->symbol = source->symbol;
        narrow->type = source->type;
        narrow->indices.clear();
        for (const IndexExpr& e : source->indices)
          narrow->indices.push_back(
              substitute(e, [&](int v) { return read->indices[static_cast<size_t>(v)]; }));
        return scalar_convert(narrow, read->type);
      });
      std::vector<int32_t> origins;
      std::ranges::set_union(reader.origins, made.origins, std::back_inserter(origins));
      reader.origins = std::move(origins);
    }
    changed = true;
  }
  if (changed) remove_dead_expressions(program);
  return changed;
}

}  // namespace weft
