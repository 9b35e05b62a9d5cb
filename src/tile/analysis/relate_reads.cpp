#include "tile/analysis/relate_reads.h"

#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "tile/analysis/same_blocks.h"

namespace weft {

std::string loop_name(const TileProgram& program, const TileLoop& loop) {
  std::string out = loop.kind == TileLoop::Kind::kGrid      ? "grid "
                    : loop.kind == TileLoop::Kind::kCluster ? "cluster "
                                                            : "seq ";
  for (size_t d = 0; d < loop.dims.size(); ++d) {
    if (d > 0) out += ", ";
    out += program.vars[static_cast<size_t>(loop.dims[d].origin)].name;
  }
  return out;
}

std::vector<int32_t> nest_of(const Site& site) {
  const bool repeats = !site.loops.empty() && is_recurrence(*site.loops.front());
  const size_t length = site.pack_member >= 0 ? 3 : (repeats ? 2 : 1);
  return {site.path.begin(),
          site.path.begin() + static_cast<std::ptrdiff_t>(std::min(length, site.path.size()))};
}

namespace {

bool contains(const std::vector<const TileLoop*>& loops, const TileLoop* loop) {
  return std::find(loops.begin(), loops.end(), loop) != loops.end();
}

bool uses_loop(const std::vector<IndexExpr>& indices, const TileLoop& loop, bool offsets) {
  for (const IndexExpr& e : indices) {
    for (const TileLoop::Dim& dim : loop.dims) {
      if (uses_var(e, dim.origin)) return true;
      if (offsets && dim.offset >= 0 && uses_var(e, dim.offset)) return true;
    }
  }
  return false;
}

/// Whether each iteration of `outer` has a stretch of its own of an inner loop that the indices
/// use:
///     seq piece in 8 { seq k in piece*512 .. min(4000, piece*512+512) { e[k] = … } }
bool walks_stretches(const std::vector<IndexExpr>& indices, const TileLoop& outer,
                     const TileLoop& inner) {
  const auto is_stretch = [&](const TileLoop::Dim& dim, const TileLoop::Dim& number) {
    AffineForm begin;
    if (!as_affine(dim.begin, &begin) || begin.coefficient(number.origin) <= 0) return false;
    const IndexExpr behind = dim.begin + begin.coefficient(number.origin);
    return dim.end == behind ||
           (dim.end.op() == IndexOp::kMin && (dim.end.lhs() == behind || dim.end.rhs() == behind));
  };
  return std::ranges::any_of(inner.dims, [&](const TileLoop::Dim& dim) {
    const bool used =
        std::ranges::any_of(indices, [&](const IndexExpr& e) { return uses_var(e, dim.origin); });
    return used && outer.dims.size() == 1 && is_stretch(dim, outer.dims.front());
  });
}

class Relation {
 public:
  Relation(const TileStructure& structure, const ReadSite& read)
      : structure_(structure),
        program_(*structure.program),
        read_(read),
        reader_(structure.sites[static_cast<size_t>(read.site)]),
        unguarded_(structure),
        guarded_(structure, constraints_of(read.guards)) {}

  ReadRelation run() {
    find_producer();
    const Site& producer = structure_.sites[static_cast<size_t>(out_.producer)];
    if (producer.pack_member != reader_.pack_member) {
      out_.reach = Reach::kNowhere;
      out_.why = "made in another member of the pack";
      return std::move(out_);
    }
    wanted_ = read_.read->indices;
    out_.common = TileStructure::common(out_.producer_loops, reader_.loops);
    if (nest_of(producer) != nest_of(reader_) && !is_kept(producer)) {
      out_.reach = Reach::kGrid;
      out_.why = "read in another nest";
      return std::move(out_);
    }
    for (size_t i = out_.common.size(); i < out_.producer_loops.size(); ++i) {
      const TileLoop* loop = out_.producer_loops[i];
      if (loop->kind != TileLoop::Kind::kSeq) {
        out_.reach = Reach::kGrid;
        out_.why = "read outside " + loop_name(program_, *loop);
        return std::move(out_);
      }
      bool walked = uses_loop(*out_.made, *loop, false);
      for (size_t k = i + 1; k < out_.producer_loops.size() && !walked; ++k)
        walked = walks_stretches(*out_.made, *loop, *out_.producer_loops[k]);
      (walked ? out_.kept : out_.lost).push_back(loop);
    }
    for (size_t i = out_.common.size(); i < reader_.loops.size(); ++i) {
      if (uses_loop(read_.read->indices, *reader_.loops[i], false)) {
        out_.picked.push_back(reader_.loops[i]);
      }
    }
    if (!out_.from_nest) find_reach();
    return std::move(out_);
  }

 private:
  /// Whether the block that reads has run the iteration of an earlier nest that made all of it:
  /// then that nest's loop stands for the reader's.
  bool is_kept(const Site& producer) {
    const bool plain = producer.kind == Site::Kind::kStatement && producer.guards.empty() &&
                       producer.path.size() > 1 && reader_.path.size() > 1 &&
                       producer.pack_member < 0 && read_.read->operands.empty();
    const auto same =
        plain ? same_blocks(structure_, nest_of(producer), nest_of(reader_)) : std::nullopt;
    if (!same) return false;
    for (IndexExpr& e : wanted_) {
      e = substitute(e, [&](int id) {
        const auto origin = same->find(id);
        return IndexExpr::var(origin == same->end() ? id : origin->second);
      });
    }
    const auto nest = std::ranges::find(out_.producer_loops, TileLoop::Kind::kGrid,
                                        [](const TileLoop* loop) { return loop->kind; });
    out_.common = {out_.producer_loops.begin(), std::next(nest)};
    const Cover cover =
        covered([&](TileVarId var) { return is_common(var, {TileLoop::Kind::kGrid}); });
    out_.from_nest = cover == Cover::kYes;
    if (out_.from_nest) return true;
    out_.common.clear();
    wanted_ = read_.read->indices;
    return false;
  }

  void find_producer() {
    const size_t symbol = static_cast<size_t>(read_.read->symbol);
    out_.producer = structure_.definition[symbol];
    if (read_.read->next && !structure_.updates[symbol].empty()) {
      // The next value is what the last update before the reader made; all of them lie alike.
      out_.producer = structure_.updates[symbol][0];
      for (const int32_t update : structure_.updates[symbol]) {
        if (update < read_.site) out_.producer = update;
      }
    }
    const Site& site = structure_.sites[static_cast<size_t>(out_.producer)];
    out_.producer_loops = site.loops;
    if (site.kind == Site::Kind::kCarry) {
      out_.made = &site.carry->target.indices;
      if (contains(reader_.loops, site.loop)) {
        out_.producer_loops.push_back(site.loop);
        out_.carried = true;
      }
      return;
    }
    out_.made = &site.statement->targets[0].indices;
    for (const TileRef& target : site.statement->targets) {
      if (target.symbol == read_.read->symbol) out_.made = &target.indices;
    }
  }

  /// Whether what is made while the `fixed` origins keep their values holds what is read: yes, no,
  /// not known.
  enum class Cover : uint8_t { kYes, kNo, kUnknown };
  Cover covered(const std::function<bool(TileVarId)>& fixed) {
    Cover result = Cover::kYes;
    const std::vector<IndexExpr>& read = wanted_;
    for (size_t a = 0; a < out_.made->size() && a < read.size(); ++a) {
      const Coordinate made = coordinate_of((*out_.made)[a], unguarded_, fixed);
      const Coordinate wanted = coordinate_of(read[a], guarded_, fixed);
      if (wanted.dynamic) {
        out_.dynamic = true;
        if (!made.outer.is_const(0) || !made.separable) result = Cover::kUnknown;
        continue;
      }
      const Interval direct = guarded_.of(read[a] - made.outer);
      const Interval apart = guarded_.of(wanted.outer - made.outer);
      const Interval reach{std::max(direct.lo, apart.lo + wanted.inner.lo),
                           std::min(direct.hi, apart.hi + wanted.inner.hi)};
      if (reach.empty()) continue;
      if (reach.lo >= made.inner.lo && reach.hi <= made.inner.hi) continue;
      const bool exact = made.separable && wanted.separable && read_.guards.empty();
      if (exact || reach.lo > made.inner.hi || reach.hi < made.inner.lo) {
        why_ = fmt::format("coordinate {} reaches [{}, {}], made is [{}, {}]", a, reach.lo,
                           reach.hi, made.inner.lo, made.inner.hi);
        return Cover::kNo;
      }
      result = Cover::kUnknown;
    }
    return result;
  }

  using Kinds = std::set<TileLoop::Kind>;
  /// Whether a variable belongs to a common loop of one of the kinds.
  bool is_common(TileVarId var, const Kinds& kinds) const {
    const auto found = structure_.dim_of.find(var);
    return found != structure_.dim_of.end() && contains(out_.common, found->second.first) &&
           kinds.count(found->second.first->kind) != 0;
  }

  /// The common loops of these kinds that tell the elements apart.
  std::string loops_in_indices(const Kinds& kinds) const {
    std::string out;
    for (const TileLoop* loop : out_.common) {
      if (kinds.count(loop->kind) == 0) continue;
      if (!uses_loop(*out_.made, *loop, false)) continue;
      out += (out.empty() ? "" : " and ") + loop_name(program_, *loop);
    }
    return out;
  }

  /// Whether the read names elements as they are made, by variables that both sides share: most
  /// reads do, and need no bounds.
  bool is_read_as_made() const {
    if (read_.read->indices != *out_.made) return false;
    return std::ranges::all_of(*out_.made, [&](const IndexExpr& e) {
      return std::ranges::all_of(variables(e), [&](int id) {
        if (id >= kRuntimeIndexBase) return false;
        const auto dim = structure_.dim_of.find(id);
        return dim == structure_.dim_of.end() || contains(out_.common, dim->second.first);
      });
    });
  }

  void find_reach() {
    using Kind = TileLoop::Kind;
    if (is_read_as_made()) return;
    const auto within = [&](const Kinds& kinds) {
      return covered([&](TileVarId var) { return is_common(var, kinds); });
    };
    const Cover here = within({Kind::kGrid, Kind::kCluster, Kind::kSeq});
    if (here == Cover::kYes) return;
    const std::string clusters = loops_in_indices({Kind::kCluster});
    if (!program_.cpu && !clusters.empty() && within({Kind::kGrid, Kind::kSeq}) == Cover::kYes) {
      out_.reach = Reach::kCluster;
      out_.why = "read in another iteration of " + clusters;
      return;
    }
    const std::string grids = loops_in_indices({Kind::kGrid, Kind::kCluster}),
                      seqs = loops_in_indices({Kind::kSeq});
    if (!grids.empty()) {
      const Cover across = within({Kind::kSeq});
      if (across != Cover::kNo) {
        out_.reach = Reach::kGrid;
        out_.why = "read in another iteration of " + grids;
        return;
      }
    }
    if (here == Cover::kUnknown) {
      out_.reach = Reach::kUnproven;
      return;
    }
    if (!seqs.empty()) {
      const Cover across = covered([&](TileVarId) { return false; });
      if (across != Cover::kNo) {
        out_.reach = Reach::kSeq;
        out_.why = "made in another iteration of " + seqs + " and not carried";
        return;
      }
    }
    out_.reach = Reach::kNowhere;
    out_.why = why_;
  }

  const TileStructure& structure_;
  const TileProgram& program_;
  const ReadSite& read_;
  const Site& reader_;
  const IndexBounds unguarded_, guarded_;
  ReadRelation out_;
  std::vector<IndexExpr> wanted_;  ///< the read's indices
  std::string why_;
};

}  // namespace

ReadRelation relate_read(const TileStructure& structure, const ReadSite& read) {
  return Relation(structure, read).run();
}

}  // namespace weft
