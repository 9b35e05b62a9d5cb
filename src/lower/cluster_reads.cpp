#include <algorithm>

#include "lower/lowering.h"

namespace weft::lowering {

/// Each block of a cluster has the box of its own iteration in its arena. Where boxes begin is
/// linear in the iteration, so that the element's coordinate tells which block has it:
///     p[i, j/64] made in `cluster j in 512 step 64`, p[i, t] read  ->  rank t, offset 0
Lowering::ClusterAddress Lowering::cluster_address(TileSymbolId id,
                                                   const std::vector<IndexExpr>& indices,
                                                   bool next) const {
  const auto range = [this](int v) { return range_of_var(v); };
  const SymbolScope& scope = scopes_.symbols[static_cast<size_t>(id)];
  std::vector<ClusterDim> dims = cluster_dims_;
  for (const ClusterDim& dim : shared_dims_) {
    if (std::ranges::any_of(scope.base,
                            [&](const IndexExpr& e) { return uses_var(e, dim.origin); }))
      dims.push_back(dim);
  }
  // What iteration 0 has of each coordinate begins here, relative to the element.
  std::vector<IndexExpr> local;
  ClusterAddress out{0, 0, true};
  for (size_t a = 0; a < indices.size(); ++a) {
    IndexExpr base = bind(substitute(scope.base[a], [&](int v) -> IndexExpr {
      for (const ClusterDim& dim : dims) {
        if (v == dim.origin) return dim.any * dim.step + dim.begin;
      }
      return IndexExpr::var(v);
    }));
    local.push_back(bind(indices[a]) - simplify(base, range));
  }
  for (const ClusterDim& dim : dims) {
    const int any = variables(dim.any)[0];
    IndexExpr made_by = dim.iteration;
    for (size_t a = 0; a < indices.size(); ++a) {
      if (!uses_var(local[a], any)) continue;
      const auto without = [&](const IndexExpr& e, const IndexExpr& value) {
        return simplify(substitute(e, [&](int v) { return v == any ? value : IndexExpr::var(v); }),
                        range);
      };
      const IndexExpr first = without(local[a], 0);
      const IndexExpr step = simplify(first - without(local[a], 1), range);
      WEFT_CHECK(step.is_const() && step.constant() > 0 &&
                     simplify(first - dim.any * step.constant() - local[a], range).is_const(0),
                 "blocks of a cluster whose boxes do not follow each other, in " + program_.name);
      made_by = floor_div(first, step.constant());
      // The last block has what its box reaches beyond the others'.
      if (scope.extents[a] > step.constant()) made_by = min(made_by, dim.trips - 1);
      made_by = simplify(made_by, range);
      local[a] = first - made_by * step.constant();
      break;
    }
    out.own &= simplify(made_by - dim.iteration, range).is_const(0);
    out.rank = out.rank + made_by * dim.stride;
  }
  int64_t stride = 1;
  for (size_t a = indices.size(); a-- > 0;) {
    WEFT_CHECK(std::none_of(dims.begin(), dims.end(),
                            [&](const ClusterDim& dim) {
                              return uses_var(local[a], variables(dim.any)[0]);
                            }),
               "one coordinate tells two loops of a cluster apart, in " + program_.name);
    out.offset = out.offset + local[a] * stride;
    stride *= scope.extents[a];
  }
  if (const auto carried = carried_buffers_.find(id); carried != carried_buffers_.end()) {
    out.offset = out.offset + (next ? 1 - carried->second : carried->second) * stride;
  }
  return out;
}

/// One load where the elements of a vector lie beside each other in one block, else lane by lane.
Reg Lowering::load_from_cluster(const Scalar& read, const ClusterAddress& address,
                                const Point& point, Reg guard) {
  const int32_t buffer = buffer_of_[static_cast<size_t>(read.symbol)];
  const auto range = [this](int id) { return range_of_var(id); };
  const auto here = [&](const IndexExpr& e) {
    return simplify(at_point(prepare(e), point), range);
  };
  const IndexExpr in_block = here(address.offset);
  const Reg rank = emit_index(here(address.rank));
  const IndexExpr first = simplify(
      substitute(in_block, [](int v) { return v == kLaneVar ? IndexExpr(0) : IndexExpr::var(v); }),
      range);
  const bool side_by_side =
      simplify(in_block - first - IndexExpr::var(kLaneVar), range).is_const(0);
  if (side_by_side && builder_.type(rank).lanes == 1) {
    return builder_.load_cluster(buffer, rank, emit_index(first), box_.lanes,
                                 guard == kNoReg ? guard : to_lanes(guard, box_.lanes));
  }
  const Reg offset = emit_index(in_block);
  const auto lane = [&](Reg r, int32_t l) {
    return r == kNoReg || builder_.type(r).lanes == 1 ? r : builder_.extract(r, l);
  };
  if (builder_.type(rank).lanes == 1 && builder_.type(offset).lanes == 1 &&
      (guard == kNoReg || builder_.type(guard).lanes == 1)) {
    return builder_.load_cluster(buffer, rank, offset, 1, guard);
  }
  std::vector<Reg> parts;
  for (int32_t l = 0; l < box_.lanes; ++l) {
    parts.push_back(
        builder_.load_cluster(buffer, lane(rank, l), lane(offset, l), 1, lane(guard, l)));
  }
  return join_lanes(std::move(parts));
}

}  // namespace weft::lowering
