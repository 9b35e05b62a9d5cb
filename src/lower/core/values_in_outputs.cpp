#include "lower/core/values_in_outputs.h"

#include <algorithm>
#include <optional>
#include <set>

#include "expr/layout.h"
#include "kernel/stream_outputs.h"

namespace weft::lowering {

namespace {

/// A statement directly inside a loop that stands directly inside the grid loop.
struct Site {
  size_t child = 0;     ///< of the grid loop's body
  size_t position = 0;  ///< in the loop
  const TileLoop* loop = nullptr;
  const TileStatement* statement = nullptr;
};

struct ReadSite {
  Site at;
  const Scalar* read = nullptr;
};

class Finder {
 public:
  Finder(const TileProgram& program, const ScopeAnalysis& scopes, const Target& target)
      : program_(program), scopes_(scopes), target_(target) {}

  std::map<TileSymbolId, ValueInOutput> run() {
    if (program_.body.size() != 1 || program_.body[0].kind != TileNode::Kind::kLoop) return {};
    const TileLoop& grid = *program_.body[0].loop;
    if (grid.kind != TileLoop::Kind::kGrid || !collect(grid)) return {};
    std::map<TileSymbolId, ValueInOutput> found;
    std::set<TileSymbolId> taken;
    for (const auto& [value, reads] : reads_) {
      const SymbolScope& scope = scopes_.symbols[static_cast<size_t>(value)];
      if (symbol(value).kind != TileSymbol::Kind::kValue || scope.scope != Scope::kBlock ||
          scope.copies != 1)
        continue;
      for (const auto& [output, store] : stores_) {
        if (taken.count(output) != 0 || symbol(output).type != symbol(value).type ||
            is_streamed(output))
          continue;
        auto place = try_place(value, output);
        if (!place) continue;
        found.emplace(value, std::move(*place));
        taken.insert(output);
        break;
      }
    }
    return found;
  }

 private:
  const TileSymbol& symbol(TileSymbolId id) const {
    return program_.symbols[static_cast<size_t>(id)];
  }

  /// Bytes of a parameter; nothing of one with an open size, whatever that is bound to.
  std::optional<int64_t> bytes_of(TileSymbolId id) const {
    Shape shape;
    for (const IndexExpr& e : symbol(id).shape) {
      if (!e.is_const()) return std::nullopt;
      shape.push_back(e.constant());
    }
    return physical_size(symbol(id).layout, shape) * byte_size(symbol(id).type);
  }

  bool is_streamed(TileSymbolId output) const {
    int64_t all = 0;
    for (const TileSymbolId id : program_.parameters) {
      const std::optional<int64_t> bytes = bytes_of(id);
      if (!bytes) return false;
      all += *bytes;
    }
    return weft::is_streamed(*bytes_of(output), all, target_);
  }

  /// False where the body is not a plain list of statements and loops over statements.
  bool collect(const TileLoop& grid) {
    for (const TileLoop::Dim& d : grid.dims) {
      grid_origins_.insert(d.origin);
      grid_dims_.emplace_back(d.origin, d.offset);
    }
    for (size_t child = 0; child < grid.body.size(); ++child) {
      const TileNode& node = grid.body[child];
      if (node.kind == TileNode::Kind::kStatement) {
        record({child, 0, nullptr, &node.statement});
        continue;
      }
      if (node.kind != TileNode::Kind::kLoop || node.loop->kind != TileLoop::Kind::kSeq)
        return false;
      for (size_t at = 0; at < node.loop->body.size(); ++at) {
        const TileNode& inner = node.loop->body[at];
        if (inner.kind != TileNode::Kind::kStatement) return false;
        record({child, at, node.loop.get(), &inner.statement});
      }
      for (const TileCarry& carry : node.loop->carries)
        record_reads(carry.initial, {child, 0, nullptr, nullptr});
    }
    return true;
  }

  void record(const Site& site) {
    for (const TileRef& target : site.statement->targets) {
      auto& sites = symbol(target.symbol).kind == TileSymbol::Kind::kOutput ? stores_ : makers_;
      sites[target.symbol].push_back(site);
    }
    record_reads(site.statement->value, site);
  }

  void record_reads(const ScalarRef& value, const Site& site) {
    visit(value, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead) reads_[s.symbol].push_back({site, &s});
    });
  }

  static bool is_plain(const Site& site) {
    const TileStatement& st = *site.statement;
    return site.loop != nullptr && st.targets.size() == 1 && !st.targets[0].next &&
           st.assign == AssignOp::kAssign && st.combiner == TileCombiner::kNone;
  }

  static bool same_ranges(const TileLoop& a, const TileLoop& b) {
    return std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                      [](const TileLoop::Dim& x, const TileLoop::Dim& y) {
                        return x.begin == y.begin && x.end == y.end && x.step == y.step;
                      });
  }

  /// `e` of the loop `from` as the loop `to`, dimension by dimension, would write it.
  static IndexExpr renamed(const IndexExpr& e, const TileLoop& from, const TileLoop& to) {
    return substitute(e, [&](int id) -> IndexExpr {
      for (size_t d = 0; d < from.dims.size(); ++d) {
        if (id == from.dims[d].origin) return IndexExpr::var(to.dims[d].origin);
        if (id == from.dims[d].offset) return IndexExpr::var(to.dims[d].offset);
      }
      return IndexExpr::var(id);
    });
  }

  std::optional<ValueInOutput> try_place(TileSymbolId value, TileSymbolId output) {
    const std::vector<Site>& makers = makers_[value];
    const std::vector<Site>& stores = stores_[output];
    if (makers.size() != 1 || stores.size() != 1 || !is_plain(makers[0]) || !is_plain(stores[0]))
      return std::nullopt;
    const Site &made = makers[0], &stored = stores[0];
    if (made.child >= stored.child || !same_ranges(*made.loop, *stored.loop)) return std::nullopt;
    std::vector<IndexExpr> element;
    for (const IndexExpr& e : made.statement->targets[0].indices)
      element.push_back(renamed(e, *made.loop, *stored.loop));
    for (const ReadSite& read : reads_[value]) {
      if (read.at.child < stored.child) continue;
      const bool last_use = read.at.child == stored.child && read.at.loop == stored.loop &&
                            read.at.position <= stored.position && read.read->indices == element;
      if (!last_use) return std::nullopt;
    }
    return place_at(element, output, stored);
  }

  /// The output's indices with the value's coordinates, each one loop's index, taken out.
  std::optional<ValueInOutput> place_at(const std::vector<IndexExpr>& element, TileSymbolId output,
                                        const Site& stored) const {
    ValueInOutput out{output, stored.statement->targets[0].indices, {}};
    std::vector<std::pair<TileVarId, TileVarId>> dims = grid_dims_;
    for (const TileLoop::Dim& d : stored.loop->dims) dims.emplace_back(d.origin, d.offset);
    std::set<TileVarId> known = grid_origins_;
    for (const IndexExpr& e : element) {
      const auto dim = std::find_if(dims.begin(), dims.end(), [&](const auto& d) {
        const IndexExpr origin = IndexExpr::var(d.first);
        return e == (d.second < 0 ? origin : origin + IndexExpr::var(d.second));
      });
      if (dim == dims.end()) return std::nullopt;
      out.coordinates.push_back(*dim);
      known.insert(dim->first);
      known.insert(dim->second);
    }
    for (const TileLoop::Dim& d : stored.loop->dims) {
      if (known.count(d.origin) == 0) return std::nullopt;
    }
    for (const IndexExpr& e : out.indices) {
      for (const int id : variables(e)) {
        if (known.count(id) == 0) return std::nullopt;
      }
    }
    return out;
  }

  const TileProgram& program_;
  const ScopeAnalysis& scopes_;
  const Target& target_;
  std::set<TileVarId> grid_origins_;
  std::vector<std::pair<TileVarId, TileVarId>> grid_dims_;
  std::map<TileSymbolId, std::vector<Site>> makers_, stores_;
  std::map<TileSymbolId, std::vector<ReadSite>> reads_;
};

}  // namespace

std::vector<IndexExpr> ValueInOutput::indices_of(const std::vector<IndexExpr>& element) const {
  std::vector<IndexExpr> out;
  for (const IndexExpr& e : indices) {
    out.push_back(substitute(e, [&](int id) -> IndexExpr {
      for (size_t a = 0; a < coordinates.size(); ++a) {
        if (id == coordinates[a].first) return element[a];
        if (id == coordinates[a].second) return 0;
      }
      return IndexExpr::var(id);
    }));
  }
  return out;
}

std::map<TileSymbolId, ValueInOutput> find_values_in_outputs(const TileProgram& program,
                                                             const ScopeAnalysis& scopes,
                                                             const Target& target) {
  return Finder(program, scopes, target).run();
}

}  // namespace weft::lowering
