#include "tile/rewrite/box_accesses.h"

#include <algorithm>
#include <set>

#include "tile/analysis/relate_reads.h"
#include "tile/rewrite/share_loads.h"

namespace weft {

namespace {

const TileSymbol& symbol_of(const TileStructure& structure, TileSymbolId id) {
  return structure.program->symbols[static_cast<size_t>(id)];
}

/// The tensor that a symbol shows as it lies; -1: a part of one, or in another shape.
TileSymbolId shown_whole(const TileStructure& structure, TileSymbolId id) {
  const TileSymbol& symbol = symbol_of(structure, id);
  if (symbol.view_of < 0) return id;
  const TileSymbol& of = symbol_of(structure, symbol.view_of);
  return symbol.at.is_const(0) && symbol.shape == of.shape ? symbol.view_of : -1;
}

/// Whether a site stands in plain loops of its nest.
bool is_plain(const TileStructure& structure, const Site& site) {
  return site.kind == Site::Kind::kStatement && site.guards.empty() && site.pack_member < 0 &&
         site.path.size() > 1 && is_nest_of_blocks(structure, nest_of(site)) &&
         std::ranges::all_of(site.loops, [](const TileLoop* loop) {
           return loop->stages == 1 && !loop->by_cluster;
         });
}

bool has_one_trip(const TileStructure& structure, const TileLoop::Dim& dim) {
  const Interval r = structure.ranges[static_cast<size_t>(dim.origin)];
  return r.lo == r.hi;
}

/// The dimension of a loop whose origin or offset a variable is; null for an axis.
const TileLoop::Dim* dim_of(const TileStructure& structure, TileVarId var) {
  return structure.dim_of.count(var) != 0 ? &structure.dim(var) : nullptr;
}

/// What an index runs along: axes, and dimensions of loops by their origins.
std::vector<TileVarId> runs_along(const TileStructure& structure, const IndexExpr& e) {
  std::vector<TileVarId> out;
  for (const int id : variables(e)) {
    const TileLoop::Dim* dim = dim_of(structure, id);
    const TileVarId item = dim != nullptr ? dim->origin : id;
    if (std::ranges::find(out, item) == out.end()) out.push_back(item);
  }
  return out;
}

class BoxMatch {
 public:
  BoxMatch(const TileStructure& structure, const BoxAccess& earlier, const BoxAccess& later)
      : structure_(structure), earlier_(earlier), later_(later) {}

  std::optional<SameVariables> run() {
    if (earlier_.tensor != later_.tensor) return std::nullopt;
    const auto same = same_origins();
    if (!same || earlier_.indices->size() != later_.indices->size()) return std::nullopt;
    for (const auto& [read, made] : *same) {
      const TileVarId own = structure_.dim(read).offset, theirs = structure_.dim(made).offset;
      pair(read, made);
      if (own >= 0 && theirs >= 0) pair(own, theirs);
    }
    for (size_t a = 0; a < earlier_.indices->size(); ++a) {
      if (!pair_along((*earlier_.indices)[a], (*later_.indices)[a])) return std::nullopt;
    }
    for (size_t a = 0; a < earlier_.indices->size(); ++a) {
      if (renamed((*later_.indices)[a]) != (*earlier_.indices)[a]) return std::nullopt;
    }
    return out_;
  }

 private:
  /// Of one nest the origins are their own.
  std::optional<SameOrigins> same_origins() const {
    if (earlier_.nest != later_.nest) return same_blocks(structure_, earlier_.nest, later_.nest);
    SameOrigins out;
    const Site& site = structure_.sites[static_cast<size_t>(earlier_.site)];
    for (const TileLoop::Dim& dim : site.loops[earlier_.nest.size() - 1]->dims)
      out[dim.origin] = dim.origin;
    return out;
  }

  void pair(TileVarId later, TileVarId earlier) {
    out_[later] = earlier;
    taken_.insert(earlier);
  }

  IndexExpr renamed(const IndexExpr& e) const {
    return substitute(e, [&](int id) {
      const auto other = out_.find(id);
      return IndexExpr::var(other == out_.end() ? id : other->second);
    });
  }

  /// What both run along beside the loops over blocks, in its order.
  bool pair_along(const IndexExpr& earlier, const IndexExpr& later) {
    std::vector<TileVarId> made = runs_along(structure_, earlier),
                           read = runs_along(structure_, later);
    std::erase_if(made, [&](TileVarId v) { return taken_.count(v) != 0; });
    std::erase_if(read, [&](TileVarId v) { return out_.count(v) != 0; });
    if (made.size() != read.size()) return false;
    for (size_t i = 0; i < made.size(); ++i) {
      if (!pair_items(made[i], read[i])) return false;
    }
    return true;
  }

  bool pair_items(TileVarId made, TileVarId read) {
    if (made >= kRuntimeIndexBase || read >= kRuntimeIndexBase) return false;
    const TileLoop::Dim *there = dim_of(structure_, made), *here = dim_of(structure_, read);
    if ((there == nullptr) != (here == nullptr)) return false;
    if (there == nullptr) {
      const auto& vars = structure_.program->vars;
      const TileVar &a = vars[static_cast<size_t>(made)], &b = vars[static_cast<size_t>(read)];
      if (a.kind != b.kind || a.extent != b.extent) return false;
      pair(read, made);
      return true;
    }
    const bool alike = there->step == here->step && renamed(here->begin) == there->begin &&
                       renamed(here->end) == there->end;
    if (!alike) return false;
    pair(read, made);
    if (here->offset >= 0) pair(here->offset, there->offset);
    return true;
  }

  const TileStructure& structure_;
  const BoxAccess& earlier_;
  const BoxAccess& later_;
  SameVariables out_;
  std::set<TileVarId> taken_;
};

}  // namespace

std::vector<BoxAccess> box_accesses(const TileStructure& structure) {
  std::vector<BoxAccess> out;
  for (size_t s = 0; s < structure.sites.size(); ++s) {
    const Site& site = structure.sites[s];
    if (!is_plain(structure, site)) continue;
    BoxAccess access;
    access.nest = nest_of(site);
    access.site = static_cast<int32_t>(s);
    std::vector<ScalarRef> seen;
    for (const ScalarRef& read : certain_reads(*structure.program, site.value)) {
      if (std::ranges::any_of(seen, [&](const ScalarRef& r) { return equal(r, read); })) continue;
      seen.push_back(read);
      access.tensor = shown_whole(structure, static_cast<TileSymbolId>(read->symbol));
      access.read = read;
      access.indices = &read->indices;
      if (access.tensor >= 0) out.push_back(access);
    }
    const TileStatement& statement = *site.statement;
    if (statement.targets.size() != 1 || statement.assign != AssignOp::kAssign) continue;
    const TileRef& target = statement.targets[0];
    if (symbol_of(structure, target.symbol).kind != TileSymbol::Kind::kOutput) continue;
    access.tensor = shown_whole(structure, target.symbol);
    access.read = nullptr;
    access.indices = &target.indices;
    if (access.tensor >= 0) out.push_back(access);
  }
  return out;
}

std::optional<SameVariables> same_box(const TileStructure& structure, const BoxAccess& earlier,
                                      const BoxAccess& later) {
  return BoxMatch(structure, earlier, later).run();
}

std::optional<std::vector<IndexExpr>> box_coordinates(const TileStructure& structure,
                                                      const BoxAccess& access) {
  const Site& site = structure.sites[static_cast<size_t>(access.site)];
  std::vector<TileVarId> items;
  for (const IndexExpr& e : *access.indices) {
    for (const TileVarId item : runs_along(structure, e)) {
      if (item >= kRuntimeIndexBase) return std::nullopt;
      if (std::ranges::find(items, item) == items.end()) items.push_back(item);
    }
  }
  const auto used = [&](TileVarId var) {
    return var >= 0 && std::ranges::any_of(*access.indices,
                                           [&](const IndexExpr& e) { return uses_var(e, var); });
  };
  std::vector<IndexExpr> out;
  const auto add_dim = [&](const TileLoop::Dim& dim) {
    out.push_back(used(dim.offset) ? structure.program->index_of(dim) : IndexExpr::var(dim.origin));
  };
  for (const TileLoop* loop : site.loops) {
    for (const TileLoop::Dim& dim : loop->dims) {
      const auto item = std::ranges::find(items, dim.origin);
      const bool listed = item != items.end();
      if (listed) items.erase(item);
      if (!listed && is_recurrence(*loop)) continue;  // the same in all steps
      if (!listed && loop->kind == TileLoop::Kind::kSeq) return std::nullopt;
      if (!listed && has_one_trip(structure, dim)) continue;
      if (listed && dim.offset >= 0 && !used(dim.offset) && loop->kind == TileLoop::Kind::kSeq)
        return std::nullopt;
      add_dim(dim);
    }
  }
  for (const TileVarId axis : items) {
    if (dim_of(structure, axis) != nullptr) return std::nullopt;
    if (structure.program->vars[static_cast<size_t>(axis)].kind == TileVar::Kind::kAxis)
      out.push_back(IndexExpr::var(axis));
  }
  return out;
}

int64_t elements_along(const TileStructure& structure, const IndexExpr& coordinate) {
  const TileVarId item = runs_along(structure, coordinate)[0];
  const TileLoop::Dim* dim = dim_of(structure, item);
  if (dim == nullptr) return structure.program->vars[static_cast<size_t>(item)].extent;
  const bool over_blocks = structure.dim_of.at(item).first->kind == TileLoop::Kind::kGrid;
  const int64_t step = dim->offset >= 0 && uses_var(coordinate, dim->offset) ? dim->step : 1;
  if (over_blocks) return step;
  const Interval r = structure.ranges[static_cast<size_t>(dim->origin)];
  return r.hi >= kUnbounded.hi ? 0 : r.hi - r.lo + step;
}

int64_t elements_of_all_blocks(const TileStructure& structure, const IndexExpr& coordinate) {
  const TileVarId item = runs_along(structure, coordinate)[0];
  const TileLoop::Dim* dim = dim_of(structure, item);
  if (dim == nullptr) return structure.program->vars[static_cast<size_t>(item)].extent;
  const Interval r = structure.ranges[static_cast<size_t>(dim->origin)];
  if (r.hi >= kUnbounded.hi) return 1;
  const bool whole = dim->offset >= 0 && uses_var(coordinate, dim->offset);
  if (!whole) return (r.hi - r.lo) / dim->step + 1;
  return dim->end.is_const() && dim->begin.is_const() ? dim->end.constant() - dim->begin.constant()
                                                      : r.hi - r.lo + dim->step;
}

}  // namespace weft
