#include "group/merge_axis_pairs.h"

#include <ranges>
#include <vector>

namespace weft {

namespace {

/// What the variables of an expression are called afterwards: (outer, inner) becomes (0, merged),
/// so that the index outer*extent + inner is the merged variable.
std::vector<IndexExpr> without(int outer, int inner, int count) {
  std::vector<IndexExpr> to;
  to.reserve(static_cast<size_t>(count));
  for (int v = 0; v < count; ++v) {
    const int target = v == inner ? outer : v;
    to.push_back(v == outer ? IndexExpr(0) : IndexExpr::var(target > inner ? target - 1 : target));
  }
  // Reductions listed the other way round: removing the inner one shifts the outer one.
  if (inner < outer) to[static_cast<size_t>(inner)] = IndexExpr::var(outer - 1);
  return to;
}

void merge_indices(const TensorProgram& program, const AxisPairs& pairs, Leaf& read) {
  const auto dims = pairs.dims.find(read.symbol);
  if (dims == pairs.dims.end()) return;
  const Shape& shape = program.tensors[static_cast<size_t>(read.symbol)].type.shape;
  // The last ones first: those before them keep their places.
  for (const int dim : dims->second | std::views::reverse) {
    const auto d = static_cast<size_t>(dim);
    read.indices[d] = read.indices[d] * shape[d + 1] + read.indices[d + 1];
    read.indices.erase(read.indices.begin() + dim + 1);
  }
}

void merge_variables(TensorExpr& e, int outer, int inner) {
  if (!e.open.empty()) {
    e.open[static_cast<size_t>(outer)] = e.is_open(outer) || e.is_open(inner);
    e.open.erase(e.open.begin() + inner);
  }
  const bool output = outer < e.output_rank();
  std::vector<int64_t>& extents = output ? e.extents : e.reduce_extents;
  const int base = output ? 0 : e.output_rank();
  extents[static_cast<size_t>(outer - base)] *= extents[static_cast<size_t>(inner - base)];
  extents.erase(extents.begin() + (inner - base));
}

}  // namespace

void merge_axis_pairs(GroupCut& cut, const AxisPairs& pairs) {
  TensorProgram& program = cut.view.program;
  for (size_t i = 0; i < program.exprs.size(); ++i) {
    const auto own = pairs.variables.find(i);
    if (own != pairs.variables.end()) {
      for (const auto& [outer, inner] : own->second | std::views::reverse) {
        rename_variables(without(outer, inner, program.exprs[i].axis_count()), cut.leaves[i]);
        merge_variables(program.exprs[i], outer, inner);
      }
    }
    for (Leaf& leaf : cut.leaves[i]) {
      if (leaf.is_read()) merge_indices(program, pairs, leaf);
    }
  }
  for (const auto& [t, dims] : pairs.dims) {
    Shape& shape = program.tensors[static_cast<size_t>(t)].type.shape;
    for (const int dim : dims | std::views::reverse) {
      const auto d = static_cast<size_t>(dim);
      shape[d] *= shape[d + 1];
      shape.erase(shape.begin() + dim + 1);
    }
  }
}

}  // namespace weft
