#include <algorithm>
#include <map>
#include <set>

#include "fmt/format.h"
#include "tile/analysis/scope_derivation.h"
#include "tile/analysis/view_parts.h"

namespace weft {
namespace {

using Path = std::vector<int32_t>;

/// Whether `path` names a condition's body's child somewhere: the path of the outermost such
/// condition.
std::optional<Path> enclosing_condition(const TileProgram& program, const Path& path) {
  const TileBody* body = &program.body;
  for (size_t i = 0; i < path.size(); ++i) {
    const size_t child = static_cast<size_t>(path[i]);
    if (child >= body->size()) return std::nullopt;
    const TileNode& node = (*body)[child];
    if (i + 1 == path.size()) return std::nullopt;
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        return std::nullopt;
      case TileNode::Kind::kLoop:
        body = &node.loop->body;
        break;
      case TileNode::Kind::kCondition:
        return Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      case TileNode::Kind::kPack:
        ++i;
        body = &node.pack->members[static_cast<size_t>(path[i])].body;
        break;
    }
  }
  return std::nullopt;
}

/// The child, of the innermost body around both, that holds `reader`.
Path meeting_child(const Path& writer, const Path& reader) {
  size_t n = 0;
  while (n < writer.size() && n < reader.size() && writer[n] == reader[n]) ++n;
  n = std::min(n, std::min(writer.size(), reader.size()) - 1);
  return {reader.begin(), reader.begin() + static_cast<std::ptrdiff_t>(n) + 1};
}

/// Walks the program in the order of execution, each seq loop twice: what is written or read at the
/// end of an iteration meets the next one. One barrier clears all that is pending.
class BarrierWalk {
 public:
  BarrierWalk(Derivation& d, Scope scope)
      : d_(d),
        scope_(scope),
        parts_(view_parts(d.structure)),
        first_read_(d.structure.sites.size(), d.structure.reads.size()) {
    for (size_t i = d.structure.reads.size(); i-- > 0;) {
      first_read_[static_cast<size_t>(d.structure.reads[i].site)] = i;
    }
    for (const TileSymbol& symbol : d.program.symbols) {
      const bool stored =
          symbol.view_of >= 0 &&
          d.program.symbols[static_cast<size_t>(symbol.view_of)].kind == TileSymbol::Kind::kOutput;
      if (stored) viewed_.insert(symbol.view_of);
    }
  }

  Status run() {
    // A new barrier changes what is pending behind it: begin again, from where nothing was pending
    // in front of it, until none is added.
    do {
      added_ = false;
      pending_ = {};
      path_.clear();
      site_ = clear_.site;
      walk(d_.program.body, clear_.node);
      if (error_) return *error_;
    } while (added_);
    return {};
  }

 private:
  /// A carry with two buffers is two: what is read, and what is written. So are two views of places
  /// that never meet.
  struct Buffer {
    TileSymbolId symbol = -1;
    bool next = false;
    TileSymbolId part = -1;  ///< the first view of the same place; -1: the whole
    friend auto operator<=>(const Buffer&, const Buffer&) = default;
  };
  struct Pending {
    std::map<Buffer, std::set<Path>> written, read;
  };
  bool stopped() const { return added_ || error_.has_value(); }

  /// What a view shows, else the symbol itself.
  TileSymbolId shown(TileSymbolId symbol) const {
    const TileSymbolId output = d_.program.symbols[static_cast<size_t>(symbol)].view_of;
    return output >= 0 ? output : symbol;
  }

  bool relevant(TileSymbolId symbol) const {
    if (viewed_.count(symbol) != 0) return scope_ == Scope::kGrid;
    if (d_.structure.definition[static_cast<size_t>(symbol)] < 0) return false;
    const Scope scope = d_.out.symbols[static_cast<size_t>(symbol)].scope;
    if (scope_ == Scope::kBlock) return scope == Scope::kBlock || scope == Scope::kCluster;
    return scope == scope_;
  }
  Buffer buffer(TileSymbolId symbol, bool next) const {
    const TileSymbolId whole = shown(symbol);
    const bool other = next && d_.out.symbols[static_cast<size_t>(whole)].copies > 1;
    return {whole, other, parts_[static_cast<size_t>(symbol)]};
  }

  void walk(const TileBody& body, size_t first = 0) {
    path_.push_back(static_cast<int32_t>(first));
    for (size_t n = first; n < body.size(); ++n) {
      const TileNode& node = body[n];
      if (stopped()) break;
      pass_barriers();
      const bool nothing_pending = pending_.written.empty() && pending_.read.empty();
      if (path_.size() == 1 && nothing_pending) clear_ = {n, site_};
      switch (node.kind) {
        case TileNode::Kind::kStatement:
          reads_of(site_);
          writes_of(node.statement);
          ++site_;
          break;
        case TileNode::Kind::kCondition:
          reads_of(site_++);
          walk(node.condition->body);
          break;
        case TileNode::Kind::kPack:
          pack(*node.pack);
          break;
        case TileNode::Kind::kLoop:
          loop(*node.loop);
          break;
      }
      ++path_.back();
    }
    path_.pop_back();
  }

  void pack(const TilePack& p) {
    const Pending before = pending_;
    path_.push_back(0);
    for (const TilePack::Member& member : p.members) {
      pending_ = before;
      const auto outer = blocks_;
      blocks_ = member.share;
      walk(member.body);
      blocks_ = outer;
      ++path_.back();
    }
    path_.pop_back();
  }

  void loop(const TileLoop& l) {
    for (size_t i = 0; i < l.carries.size(); ++i) reads_of(site_++);
    if (l.kind != TileLoop::Kind::kSeq) return walk(l.body);
    const int32_t first = site_;
    path_.push_back(0);
    const Path inside = path_;
    path_.pop_back();
    for (const TileCarry& carry : l.carries) {
      if (!relevant(carry.target.symbol)) continue;
      // The first value stands where the body begins: the barrier that the updates need serves it,
      // too.
      write(buffer(carry.target.symbol, false), inside);
    }
    const bool repeats = scope_ == Scope::kGrid && path_.size() == 1 && is_recurrence(l);
    if (repeats) part(inside);
    for (int round = 0; round < 2 && !stopped(); ++round) {
      site_ = first;
      walk(l.body);
      turn(l);
    }
    const int32_t behind = path_.front() + 1;
    if (repeats && static_cast<size_t>(behind) < d_.program.body.size()) part({behind});
  }

  /// What a recurrence's iteration stores is there for the next one, and for what stands behind it.
  void part(const Path& before) {
    const bool known = std::ranges::any_of(d_.out.barriers, [&](const BarrierPoint& b) {
      return b.before == before && b.scope == Scope::kGrid;
    });
    if (known || stopped()) return;
    added_ = true;
    d_.out.barriers.push_back({Scope::kGrid, before, d_.program.blocks});
  }

  /// The next values become the current ones.
  void turn(const TileLoop& l) {
    for (const TileCarry& carry : l.carries) {
      const TileSymbolId symbol = carry.target.symbol;
      if (d_.out.symbols[static_cast<size_t>(symbol)].copies < 2) continue;
      for (auto* map : {&pending_.written, &pending_.read}) {
        const auto current = map->extract({symbol, false});
        auto next = map->extract({symbol, true});
        if (!next.empty()) {
          next.key() = {symbol, false};
          map->insert(std::move(next));
        }
        if (!current.empty()) (*map)[{symbol, true}] = current.mapped();
      }
    }
  }

  void reads_of(int32_t site) {
    const auto& reads = d_.structure.reads;
    // Reads are listed in the order of their sites.
    size_t i = first_read_[static_cast<size_t>(site)];
    for (; i < reads.size() && reads[i].site == site && !stopped(); ++i) {
      const TileSymbolId symbol = shown(reads[i].read->symbol);
      // A thread needs no barrier for what it made itself.
      if (!relevant(symbol) || d_.read_scopes[i] == Scope::kRegister) continue;
      if (scope_ != Scope::kBlock && d_.read_scopes[i] < scope_) continue;
      const Buffer b = buffer(reads[i].read->symbol, reads[i].read->next);
      const auto written = pending_.written.find(b);
      if (written != pending_.written.end()) barrier(*written->second.begin(), symbol);
      pending_.read[b].insert(path_);
    }
  }

  void writes_of(const TileStatement& s) {
    for (const TileRef& target : s.targets) {
      if (relevant(shown(target.symbol))) write(buffer(target.symbol, target.next), path_);
    }
  }

  void write(const Buffer& b, const Path& at) {
    for (const auto& [other, paths] : pending_.read) {
      if (other != b && !overlap(other.symbol, b.symbol)) continue;
      if (other == b && staged(b.symbol)) continue;
      for (const Path& path : paths) {
        // A carry's update reads its own element: no other thread does.
        if (!(other == b && path == at)) return barrier(path, b.symbol), record(b, at);
      }
    }
    for (const auto& [other, paths] : pending_.written) {
      if (other.symbol != b.symbol && overlap(other.symbol, b.symbol)) {
        return barrier(*paths.begin(), b.symbol), record(b, at);
      }
    }
    record(b, at);
  }
  void record(const Buffer& b, const Path& at) { pending_.written[b].insert(at); }

  /// The next iteration writes another buffer than the one that is read.
  bool staged(TileSymbolId symbol) const {
    const int32_t site = d_.structure.definition[static_cast<size_t>(symbol)];
    return is_staged_load(d_, d_.structure.sites[static_cast<size_t>(site)]);
  }

  /// Buffers that share bytes of the block's arena.
  bool overlap(TileSymbolId a, TileSymbolId b) const {
    if (a == b || scope_ == Scope::kGrid) return false;
    const SymbolScope& x = d_.out.symbols[static_cast<size_t>(a)];
    const SymbolScope& y = d_.out.symbols[static_cast<size_t>(b)];
    return x.bytes > 0 && y.bytes > 0 && x.offset < y.offset + y.bytes &&
           y.offset < x.offset + x.bytes;
  }

  void barrier(const Path& writer, TileSymbolId symbol) {
    if (stopped()) return;
    Path at = meeting_child(writer, path_);
    const auto condition = enclosing_condition(d_.program, at);
    if (condition.has_value()) {
      if (writer < at) {
        error_ = invalid_input(
            fmt::format("tile program {}: a barrier for {} would stand inside a condition",
                        d_.program.name, d_.program.symbols[static_cast<size_t>(symbol)].name));
        return;
      }
      at = *condition;
    }
    WEFT_CHECK(
        std::none_of(d_.out.barriers.begin(), d_.out.barriers.end(),
                     [&](const BarrierPoint& b) { return b.before == at && b.scope >= scope_; }),
        "a barrier does not clear what is pending in " + d_.program.name);
    added_ = true;
    const IndexExpr blocks = scope_ == Scope::kCluster ? IndexExpr(d_.out.cluster_blocks)
                                                       : blocks_.value_or(d_.program.blocks);
    d_.out.barriers.push_back({scope_, at, blocks});
  }

  /// A barrier that stands before this node already.
  void pass_barriers() {
    for (const BarrierPoint& known : d_.out.barriers) {
      if (known.before == path_ && known.scope >= scope_) pending_ = {};
    }
  }

  Derivation& d_;
  Scope scope_;
  std::vector<TileSymbolId> parts_;  ///< of views, by symbol
  Pending pending_;
  std::vector<size_t> first_read_;  ///< by site
  std::set<TileSymbolId> viewed_;   ///< outputs that views show
  Path path_;
  int32_t site_ = 0;
  struct Clear {
    size_t node = 0;  ///< of the program's body
    int32_t site = 0;
  };
  Clear clear_;  ///< the last node before which nothing is pending
  bool added_ = false;
  std::optional<IndexExpr> blocks_;
  std::optional<Error> error_;
};

/// Whether a barrier stands between two nodes of one nest, outside of seq loops: the block has gone
/// through all of its iterations by then, so a value of one iteration needs a place of its own.
bool crosses(const Derivation& d, const BarrierPoint& barrier, const Site& from, const Site& to) {
  const Path& at = barrier.before;
  if (barrier.scope != Scope::kGrid || at.size() <= nest_of(from).size()) return false;
  const Path body(at.begin(), at.end() - 1);
  const auto within = [&](const Path& path) {
    return path.size() > body.size() && std::equal(body.begin(), body.end(), path.begin());
  };
  if (!within(from.path) || !within(to.path)) return false;
  for (const TileLoop* loop : from.loops) {
    const Path& loop_at = d.structure.loop_path.at(loop);
    const bool around =
        loop_at.size() <= body.size() && std::equal(loop_at.begin(), loop_at.end(), body.begin());
    if (around && loop->kind == TileLoop::Kind::kSeq) return false;
  }
  return from.path[body.size()] < at.back() && to.path[body.size()] >= at.back();
}

/// The pieces of a nest that a CPU's thread runs through for all of its iterations, one piece after
/// the other: up to a barrier and on from it, and up to, through and on from a loop around one.
class Stretches {
 public:
  explicit Stretches(const Derivation& d) {
    for (const BarrierPoint& barrier : d.out.barriers) {
      if (barrier.scope != Scope::kGrid) continue;
      const Path& at = barrier.before;
      const TileNode::Kind top = d.program.body[static_cast<size_t>(at[0])].kind;
      for (size_t n = top == TileNode::Kind::kPack ? 4 : 2; n <= at.size(); ++n) {
        std::set<int32_t>& cuts =
            cuts_[Path(at.begin(), at.begin() + static_cast<ptrdiff_t>(n) - 1)];
        cuts.insert(at[n - 1]);
        if (n < at.size()) cuts.insert(at[n - 1] + 1);
      }
    }
    for (const auto& [loop, path] : d.structure.loop_path) {
      if (cuts_.count(path) != 0) split_.insert(loop);
    }
  }

  bool none() const { return cuts_.empty(); }
  /// Whether a barrier stands inside the loop.
  bool split(const TileLoop* loop) const { return split_.count(loop) != 0; }
  bool same(const Site& a, const Site& b) const { return of(a) == of(b); }

 private:
  std::pair<Path, int64_t> of(const Site& site) const {
    for (size_t n = site.path.size(); n-- > 0;) {
      const Path body(site.path.begin(), site.path.begin() + static_cast<ptrdiff_t>(n));
      const auto found = cuts_.find(body);
      if (found == cuts_.end()) continue;
      const std::set<int32_t>& cuts = found->second;
      const int32_t child = site.path[n];
      // First values are made before their loop.
      const auto behind = site.kind == Site::Kind::kCarry && split(site.loop)
                              ? cuts.lower_bound(child)
                              : cuts.upper_bound(child);
      return {body, std::distance(cuts.begin(), behind)};
    }
    return {};
  }

  std::map<Path, std::set<int32_t>> cuts_;  ///< by body: children before which a piece ends
  std::set<const TileLoop*> split_;
};

/// The dimensions of the grid whose iterations make a value at the same coordinates.
Result<std::vector<SymbolScope::Part>> parts_of(const Derivation& d, const Site& maker,
                                                TileSymbolId symbol,
                                                const std::vector<IndexExpr>& made) {
  std::vector<SymbolScope::Part> parts;
  for (const TileLoop* loop : maker.loops) {
    if (loop->kind == TileLoop::Kind::kSeq) continue;
    for (const TileLoop::Dim& dim : loop->dims) {
      if (std::ranges::any_of(made, [&](const IndexExpr& e) { return uses_var(e, dim.origin); }))
        continue;
      const Interval r = d.structure.ranges[static_cast<size_t>(dim.origin)];
      if (r.hi >= kUnbounded.hi || r.lo <= kUnbounded.lo) {
        return invalid_input(
            fmt::format("tile program {}: {} is kept across a barrier for each iteration of {}, "
                        "whose number is "
                        "not bound",
                        d.program.name, d.program.symbols[static_cast<size_t>(symbol)].name,
                        loop_name(d.program, *loop)));
      }
      parts.push_back({dim.origin, dim.begin, dim.step, (r.hi - r.lo) / dim.step + 1});
    }
  }
  return std::move(parts);
}

/// What leaves its stretch lies in memory, in a place for each iteration of the grid.
Status keep_across_barriers(Derivation& d) {
  const Stretches stretches(d);
  if (stretches.none()) return {};
  for (size_t i = 0; i < d.structure.reads.size(); ++i) {
    if (!d.relations[i].has_value()) continue;
    const ReadSite& read = d.structure.reads[i];
    const TileSymbolId symbol = read.read->symbol;
    SymbolScope& scope = d.out.symbols[static_cast<size_t>(symbol)];
    const int32_t definition = d.structure.definition[static_cast<size_t>(symbol)];
    const Site& maker = d.structure.sites[static_cast<size_t>(definition)];
    const bool carried = maker.kind == Site::Kind::kCarry && stretches.split(maker.loop);
    if (scope.scope == Scope::kGrid ||
        (!carried && stretches.same(maker, d.structure.sites[static_cast<size_t>(read.site)]))) {
      continue;
    }
    WEFT_ASSIGN_OR_RETURN(scope.parts, parts_of(d, maker, symbol, *d.relations[i]->made));
    if (scope.scope < Scope::kBlock && maker.kind == Site::Kind::kCarry) {
      scope.scope = Scope::kBlock;
      scope.copies = carry_copies(d, symbol);
    }
    scope.scope = Scope::kGrid;
    scope.reason = "kept across a barrier (1d)";
  }
  return {};
}

/// Iterations of the grid loops that one block goes through, at most; 1 where a size is not bound.
int64_t iterations_per_block(const Derivation& d, const Site& site, const BarrierPoint& barrier) {
  int64_t iterations = 1;
  for (const TileLoop* loop : site.loops) {
    if (loop->kind != TileLoop::Kind::kGrid) continue;
    for (const TileLoop::Dim& dim : loop->dims) {
      const Interval r = d.structure.ranges[static_cast<size_t>(dim.origin)];
      if (r.hi >= kUnbounded.hi) return 1;
      iterations *= (r.hi - r.lo) / dim.step + 1;
    }
  }
  const Interval blocks = range_of(barrier.blocks, d.structure.range());
  return blocks.lo < 1 ? 1 : (iterations + blocks.lo - 1) / blocks.lo;
}

}  // namespace

Status derive_grid_barriers(Derivation& d) {
  WEFT_RETURN_IF_ERROR(BarrierWalk(d, Scope::kGrid).run());
  if (d.program.cpu) return keep_across_barriers(d);
  for (size_t i = 0; i < d.structure.reads.size(); ++i) {
    if (!d.relations[i].has_value()) continue;
    const ReadSite& read = d.structure.reads[i];
    const Site& reader = d.structure.sites[static_cast<size_t>(read.site)];
    const Site& maker = d.structure.sites[static_cast<size_t>(d.relations[i]->producer)];
    SymbolScope& scope = d.out.symbols[static_cast<size_t>(read.read->symbol)];
    for (const BarrierPoint& barrier : d.out.barriers) {
      if (scope.scope == Scope::kGrid || !crosses(d, barrier, maker, reader)) continue;
      scope.copies = std::max(scope.copies, iterations_per_block(d, maker, barrier));
    }
  }
  return {};
}

Status derive_block_barriers(Derivation& d) {
  if (d.program.cpu) return {};  // a block is one thread
  if (d.out.cluster_blocks > 1) WEFT_RETURN_IF_ERROR(BarrierWalk(d, Scope::kCluster).run());
  return BarrierWalk(d, Scope::kBlock).run();
}

}  // namespace weft
