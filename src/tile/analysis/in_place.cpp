#include <algorithm>
#include <optional>
#include <set>

#include "tile/analysis/scope_derivation.h"

namespace weft {

namespace {

using Indices = std::vector<IndexExpr>;

/// Where a value is made or read, by the coordinates that move within its buffer.
struct Access {
  int32_t site = -1;
  Indices indices;
};

class InPlace {
 public:
  explicit InPlace(const Derivation& d) : d_(d), accesses_(d.program.symbols.size()) {
    for (size_t i = 0; i < accesses_.size(); ++i) {
      const int32_t definition = d.structure.definition[i];
      if (definition < 0 || !may_share(static_cast<TileSymbolId>(i))) continue;
      accesses_[i].push_back(
          {definition, moving(static_cast<TileSymbolId>(i), target_of(definition).indices)});
    }
    for (const ReadSite& read : d.structure.reads) {
      std::vector<Access>& own = accesses_[static_cast<size_t>(read.read->symbol)];
      if (!own.empty()) own.push_back({read.site, moving(read.read->symbol, read.read->indices)});
    }
  }

  /// In the order in which values are made; each gives its bytes to one.
  std::vector<TileSymbolId> sources() const {
    std::vector<TileSymbolId> order;
    for (size_t i = 0; i < accesses_.size(); ++i) {
      if (!accesses_[i].empty()) order.push_back(static_cast<TileSymbolId>(i));
    }
    std::ranges::sort(order, {}, [&](TileSymbolId id) { return accesses(id)[0].site; });
    std::vector<TileSymbolId> out(accesses_.size(), -1);
    std::set<TileSymbolId> taken;
    for (const TileSymbolId id : order) {
      if (!makes_each_element_once(id)) continue;
      for (const TileSymbolId source : order) {
        if (source == id) break;
        if (taken.contains(source) || !meet(source, id) || !lie_alike(source, id) ||
            !ends_where_made(source, id))
          continue;
        taken.insert(source);
        out[static_cast<size_t>(id)] = source;
        break;
      }
    }
    return out;
  }

 private:
  const Site& site(int32_t number) const { return d_.structure.sites[static_cast<size_t>(number)]; }
  const TileRef& target_of(int32_t definition) const {
    return site(definition).statement->targets[0];
  }
  const SymbolScope& scope(TileSymbolId id) const {
    return d_.out.symbols[static_cast<size_t>(id)];
  }
  const std::vector<Access>& accesses(TileSymbolId id) const {
    return accesses_[static_cast<size_t>(id)];
  }

  /// A value of one buffer, which lives within an iteration of the loops around it.
  bool may_share(TileSymbolId id) const {
    const auto i = static_cast<size_t>(id);
    if (d_.program.symbols[i].kind != TileSymbol::Kind::kValue) return false;
    const Site& maker = site(d_.structure.definition[i]);
    return scope(id).scope == Scope::kBlock && scope(id).parts.empty() && scope(id).copies == 1 &&
           !scope(id).staged && !d_.kept.contains(id) && maker.kind == Site::Kind::kStatement &&
           maker.statement->targets.size() == 1;
  }

  /// Without coordinates along which the buffer has one element: they move no byte.
  template <typename List>
  List moving(TileSymbolId id, const List& of_coordinates) const {
    List out;
    for (size_t c = 0; c < of_coordinates.size(); ++c) {
      if (scope(id).extents[c] > 1) out.push_back(of_coordinates[c]);
    }
    return out;
  }

  /// Whether elements of the same coordinates have the same bytes where both buffers begin
  /// together.
  bool lie_alike(TileSymbolId from, TileSymbolId to) const {
    const SymbolScope &a = scope(from), &b = scope(to);
    const auto bytes = [&](TileSymbolId id) {
      return byte_size(d_.program.symbols[static_cast<size_t>(id)].type);
    };
    const auto own = moving(from, a.extents), other = moving(to, b.extents);
    return !own.empty() && own.size() == other.size() && bytes(from) == bytes(to) &&
           std::equal(own.begin() + 1, own.end(), other.begin() + 1) && b.bytes <= a.bytes &&
           moving(from, a.base) == moving(to, b.base) && a.pad == b.pad && !a.swizzle && !b.swizzle;
  }

  /// Whether the first is alive where the second is made: else their bytes are shared anyway.
  bool meet(TileSymbolId a, TileSymbolId b) const {
    return live_range(d_, a).last >= live_range(d_, b).first;
  }

  /// Whether executions of the statement within a life of the buffer, and the points of its box,
  /// make different elements: each loop moves a coordinate of its own, as does each axis.
  bool makes_each_element_once(TileSymbolId id) const {
    const int32_t made = accesses(id)[0].site;
    const Indices& indices = accesses(id)[0].indices;
    std::set<TileVarId> axes;
    for (const IndexExpr& e : indices) {
      const TileVarId axis = axis_of(d_.program, e);
      if (axis < -1 || (axis >= 0 && !axes.insert(axis).second)) return false;
    }
    const std::vector<const TileLoop*>& loops = site(made).loops;
    for (size_t l = lifetime_loops(d_, id).size(); l < loops.size(); ++l) {
      for (const TileLoop::Dim& dim : loops[l]->dims) {
        if (!coordinate_along(indices, dim)) return false;
      }
    }
    return true;
  }

  /// The coordinate that is the loop's own index.
  std::optional<size_t> coordinate_along(const Indices& indices, const TileLoop::Dim& dim) const {
    const auto at = std::ranges::find(indices, d_.program.index_of(dim));
    if (at == indices.end()) return std::nullopt;
    return static_cast<size_t>(at - indices.begin());
  }

  /// Whether nothing makes or reads an element of `source` behind the one of `id` that is made in
  /// its place; the statement that makes this may read it. Loops whose iterations have elements of
  /// their own, of both, are looked into: there an iteration is all that there is.
  bool ends_where_made(TileSymbolId source, TileSymbolId id) const {
    const int32_t made = accesses(id)[0].site;
    const Indices& indices = accesses(id)[0].indices;
    const bool reduces = site(made).statement->combiner != TileCombiner::kNone;
    for (const Access& a : accesses(source)) {
      if (a.site == made && (reduces || a.indices != indices)) return false;
    }
    const std::vector<const TileLoop*> life = lifetime_loops(d_, source);
    if (life != lifetime_loops(d_, id)) return false;
    const std::vector<const TileLoop*>& loops = site(made).loops;
    for (size_t l = life.size();; ++l) {
      const int32_t begin = l < loops.size() ? d_.structure.loop_sites.at(loops[l]).first : made;
      const bool ends = std::ranges::all_of(
          accesses(source), [&](const Access& a) { return a.site == made || a.site < begin; });
      if (ends) return true;
      if (l == loops.size() || !has_own_elements(*loops[l], l, source, indices) ||
          !has_own_elements(*loops[l], l, id, indices))
        return false;
    }
  }

  /// Whether what the loop, the l-th around the statement, holds of accesses to a value is in each
  /// iteration to elements of that iteration.
  bool has_own_elements(const TileLoop& loop, size_t l, TileSymbolId id,
                        const Indices& like) const {
    return std::ranges::all_of(loop.dims, [&](const TileLoop::Dim& dim) {
      const std::optional<size_t> along = coordinate_along(like, dim);
      return along && std::ranges::all_of(accesses(id), [&](const Access& a) {
               const std::vector<const TileLoop*>& around = site(a.site).loops;
               const bool inside = around.size() > l && around[l] == &loop;
               return !inside || a.indices[*along] == like[*along];
             });
    });
  }

  const Derivation& d_;
  std::vector<std::vector<Access>> accesses_;  ///< by symbol, the making first; of none: not asked
};

}  // namespace

std::vector<TileSymbolId> in_place_sources(const Derivation& d) {
  if (!d.program.cpu) return std::vector<TileSymbolId>(d.program.symbols.size(), -1);
  return InPlace(d).sources();
}

}  // namespace weft
