#include "expr/movement/open_axes.h"

#include <algorithm>
#include <set>
#include <utility>

namespace weft {

namespace {

bool same_structure(const TensorExpr& a, const TensorExpr& b) {
  return a.output == b.output && a.extents.size() == b.extents.size() &&
         a.reduce_extents.size() == b.reduce_extents.size() && a.combiner == b.combiner &&
         a.accumulator == b.accumulator && a.is_contraction == b.is_contraction;
}

bool same_structure(const TensorProgram& a, const TensorProgram& b) {
  if (a.tensors.size() != b.tensors.size() || a.exprs.size() != b.exprs.size() ||
      a.opaques.size() != b.opaques.size() || a.steps.size() != b.steps.size() ||
      a.inputs != b.inputs || a.outputs != b.outputs)
    return false;
  for (size_t t = 0; t < a.tensors.size(); ++t) {
    const Tensor &x = a.tensors[t], &y = b.tensors[t];
    if (x.kind != y.kind || x.type.dtype != y.type.dtype ||
        x.type.shape.size() != y.type.shape.size())
      return false;
  }
  for (size_t s = 0; s < a.steps.size(); ++s) {
    if (a.steps[s].opaque != b.steps[s].opaque || a.steps[s].index != b.steps[s].index)
      return false;
  }
  for (size_t e = 0; e < a.exprs.size(); ++e) {
    if (!same_structure(a.exprs[e], b.exprs[e])) return false;
  }
  for (size_t o = 0; o < a.opaques.size(); ++o) {
    const OpaqueExpr &x = a.opaques[o], &y = b.opaques[o];
    if (x.node.op != y.node.op || x.operands != y.operands || x.results != y.results ||
        x.regions.size() != y.regions.size())
      return false;
    for (size_t r = 0; r < x.regions.size(); ++r) {
      if (!same_structure(*x.regions[r], *y.regions[r])) return false;
    }
  }
  return true;
}

void mark(TensorProgram& a, TensorProgram& b) {
  for (size_t e = 0; e < a.exprs.size(); ++e) {
    TensorExpr &x = a.exprs[e], &y = b.exprs[e];
    std::vector<bool> open;
    for (size_t d = 0; d < x.extents.size(); ++d) open.push_back(x.extents[d] != y.extents[d]);
    for (size_t r = 0; r < x.reduce_extents.size(); ++r)
      open.push_back(x.reduce_extents[r] != y.reduce_extents[r]);
    x.open = y.open = open;
  }
  for (size_t o = 0; o < a.opaques.size(); ++o) {
    for (size_t r = 0; r < a.opaques[o].regions.size(); ++r)
      mark(*a.opaques[o].regions[r], *b.opaques[o].regions[r]);
  }
}

bool alike(const IndexExpr& a, const IndexExpr& b) { return variables(a) == variables(b); }

/// Compares trees that share nodes, each pair once.
class Likeness {
 public:
  bool of(const ScalarRef& a, const ScalarRef& b) {
    if (a == nullptr || b == nullptr) return a == b;
    if (!seen_.emplace(a.get(), b.get()).second) return true;
    if (a->kind != b->kind || a->type != b->type || a->op != b->op || a->symbol != b->symbol ||
        a->operands.size() != b->operands.size() || a->indices.size() != b->indices.size() ||
        a->next != b->next || !of(a->fill, b->fill) || !alike(a->index, b->index))
      return false;
    for (size_t i = 0; i < a->indices.size(); ++i) {
      if (!alike(a->indices[i], b->indices[i])) return false;
    }
    for (size_t i = 0; i < a->operands.size(); ++i) {
      if (!of(a->operands[i], b->operands[i])) return false;
    }
    return true;
  }

 private:
  std::set<std::pair<const Scalar*, const Scalar*>> seen_;
};

/// As axes: one of a single element is none to most of what looks at them.
bool alike(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return std::ranges::equal(
      a, b, {}, [](int64_t n) { return n > 1; }, [](int64_t n) { return n > 1; });
}

}  // namespace

bool differs_in_numbers_only(const TensorExpr& here, const TensorExpr& there) {
  return same_structure(here, there) && alike(here.extents, there.extents) &&
         alike(here.reduce_extents, there.reduce_extents) && Likeness().of(here.body, there.body);
}

bool mark_open_axes(TensorProgram& here, TensorProgram& there) {
  if (!same_structure(here, there)) return false;
  mark(here, there);
  return true;
}

}  // namespace weft
