#include "lower/gpu/cluster_reads.h"

#include <algorithm>

#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"

namespace weft::lowering {

ClusterAddress cluster_address(const GpuWriter& w, TileSymbolId id,
                               const std::vector<IndexExpr>& indices, bool next) {
  const auto range = [&](int v) { return range_of_var(w, v); };
  const SymbolScope& scope = w.scopes.symbols[static_cast<size_t>(id)];
  std::vector<ClusterDim> dims = w.cluster_dims;
  for (const ClusterDim& dim : w.shared_dims) {
    if (std::ranges::any_of(scope.base,
                            [&](const IndexExpr& e) { return uses_var(e, dim.origin); }))
      dims.push_back(dim);
  }
  // What iteration 0 has of each coordinate begins here, relative to the element.
  std::vector<IndexExpr> local;
  ClusterAddress out{0, 0, true};
  for (size_t a = 0; a < indices.size(); ++a) {
    IndexExpr base = bind(w, substitute(scope.base[a], [&](int v) -> IndexExpr {
                            for (const ClusterDim& dim : dims) {
                              if (v == dim.origin) return dim.any * dim.step + dim.begin;
                            }
                            return IndexExpr::var(v);
                          }));
    local.push_back(bind(w, indices[a]) - simplify(base, range));
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
                 "blocks of a cluster whose boxes do not follow each other, in " + w.program.name);
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
               "one coordinate tells two loops of a cluster apart, in " + w.program.name);
    out.offset = out.offset + local[a] * stride;
    stride *= scope.extents[a] + (a + 1 == indices.size() ? scope.pad : 0);
  }
  if (const auto carried = w.memory.carried.find(id); carried != w.memory.carried.end()) {
    out.offset = out.offset + (next ? 1 - carried->second : carried->second) * stride;
  }
  return out;
}

Reg load_from_cluster(GpuWriter& w, const Scalar& read, const ClusterAddress& address,
                      const Point& point, Reg guard) {
  const int32_t buffer = w.memory.buffer_of[static_cast<size_t>(read.symbol)];
  const auto range = [&](int id) { return range_of_var(w, id); };
  const auto here = [&](const IndexExpr& e) {
    return simplify(at_point(w, prepare(w, e), point), range);
  };
  const IndexExpr in_block = here(address.offset);
  const Reg rank = emit_index(w, here(address.rank));
  const IndexExpr first = simplify(
      substitute(in_block, [](int v) { return v == kLaneVar ? IndexExpr(0) : IndexExpr::var(v); }),
      range);
  const bool side_by_side =
      simplify(in_block - first - IndexExpr::var(kLaneVar), range).is_const(0);
  if (side_by_side && w.builder.type(rank).lanes == 1) {
    return w.builder.load_cluster(
        buffer, rank, emit_index(w, first), w.at_hand.box.lanes,
        guard == kNoReg ? guard : to_lanes(w, guard, w.at_hand.box.lanes));
  }
  const Reg offset = emit_index(w, in_block);
  const auto lane = [&](Reg r, int32_t l) {
    return r == kNoReg || w.builder.type(r).lanes == 1 ? r : w.builder.extract(r, l);
  };
  if (w.builder.type(rank).lanes == 1 && w.builder.type(offset).lanes == 1 &&
      (guard == kNoReg || w.builder.type(guard).lanes == 1)) {
    return w.builder.load_cluster(buffer, rank, offset, 1, guard);
  }
  std::vector<Reg> parts;
  for (int32_t l = 0; l < w.at_hand.box.lanes; ++l) {
    parts.push_back(
        w.builder.load_cluster(buffer, lane(rank, l), lane(offset, l), 1, lane(guard, l)));
  }
  return join_lanes(w, std::move(parts));
}

}  // namespace weft::lowering
