#include <algorithm>
#include <map>
#include <set>

#include "fmt/format.h"
#include "tile/analysis/relate_reads.h"
#include "tile/analysis/view_parts.h"
#include "tile/text/tile_printer.h"
#include "tile/tile_structure.h"

namespace weft {

namespace {

class Views {
 public:
  Views(const TileProgram& program, const TileStructure& structure)
      : program_(program), structure_(structure) {
    for (size_t i = 0; i < structure.sites.size(); ++i) {
      const Site& site = structure.sites[i];
      if (site.kind != Site::Kind::kStatement) continue;
      for (const TileRef& target : site.statement->targets) {
        if (symbol(target.symbol).kind == TileSymbol::Kind::kOutput)
          stores_.push_back({&site, target.symbol});
      }
    }
    for (const ReadSite& read : structure.reads)
      reads_.push_back({&structure.sites[static_cast<size_t>(read.site)], read.read->symbol});
  }

  Status run() const {
    WEFT_RETURN_IF_ERROR(check_loops());
    for (const TileSymbol& view : program_.symbols) {
      if (view.view_of >= 0) WEFT_RETURN_IF_ERROR(check_place(view));
    }
    for (const auto* uses : {&reads_, &stores_}) {
      for (const Use& use : *uses) WEFT_RETURN_IF_ERROR(check_use(use));
    }
    WEFT_RETURN_IF_ERROR(check_one_place());
    for (const Use& read : reads_) WEFT_RETURN_IF_ERROR(check_order(read));
    return {};
  }

 private:
  struct Use {
    const Site* site = nullptr;
    TileSymbolId symbol = -1;
  };

  const TileSymbol& symbol(TileSymbolId id) const {
    return program_.symbols[static_cast<size_t>(id)];
  }
  TileSymbolId whole(TileSymbolId id) const {
    return symbol(id).view_of >= 0 ? symbol(id).view_of : id;
  }
  static const TileLoop* recurrence(const Site& site) {
    const bool inside = !site.loops.empty() && is_recurrence(*site.loops.front());
    return inside ? site.loops.front() : nullptr;
  }
  Error broken(std::string what) const {
    return {ErrorCode::kInvalidInput, fmt::format("tile program {}: {}", program_.name, what)};
  }

  /// A recurrence's variable is in views alone.
  Status check_loops() const {
    for (const auto& [loop, path] : structure_.loop_path) {
      for (const TileLoop::Dim& dim : loop->dims) {
        for (const IndexExpr& e : {dim.begin, dim.end}) {
          for (const int id : variables(e)) {
            const auto of = structure_.dim_of.find(id);
            if (of == structure_.dim_of.end() || !is_recurrence(*of->second.first)) continue;
            return broken(fmt::format("{} uses the variable of a recurrence, which only views may",
                                      loop_name(program_, *loop)));
          }
        }
      }
    }
    return {};
  }

  Status check_place(const TileSymbol& view) const {
    const TileSymbol& of = symbol(view.view_of);
    const auto elements = elements_of(view), all = elements_of(of);
    if (view.type != of.type || !elements || !all || !view.layout.is_row_major() ||
        !of.layout.is_row_major()) {
      return broken(fmt::format("{} has another type than {}, which it shows, or is not row-major",
                                view.name, of.name));
    }
    const std::vector<int> vars = variables(view.at);
    const auto loop = vars.empty() ? structure_.dim_of.end() : structure_.dim_of.find(vars[0]);
    const bool of_recurrence =
        vars.size() == 1 && loop != structure_.dim_of.end() && is_recurrence(*loop->second.first);
    if (!vars.empty() && !of_recurrence)
      return broken(fmt::format("{} lies at a place that no recurrence gives", view.name));
    const Interval at = range_of(view.at, structure_.range());
    if (at.lo < 0 || at.hi > *all - *elements) {
      return broken(fmt::format("{} shows elements [{}, {}] of {}, which has {}", view.name, at.lo,
                                at.hi + *elements - 1, of.name, *all));
    }
    return {};
  }

  Status check_use(const Use& use) const {
    const TileSymbol& used = symbol(use.symbol);
    for (const int var : variables(used.at)) {
      const TileLoop* inside = recurrence(*use.site);
      if (inside != nullptr && inside == structure_.dim_of.at(var).first) continue;
      return broken(fmt::format("{} is used outside of {}", used.name,
                                loop_name(program_, *structure_.dim_of.at(var).first)));
    }
    // Of what nothing stores both say the same.
    if (used.view_of >= 0 || used.kind == TileSymbol::Kind::kInput) return {};
    const auto shows = [&](const TileSymbol& s) {
      return s.view_of == use.symbol && s.kind == used.kind;
    };
    if (std::ranges::none_of(program_.symbols, shows)) return {};
    return broken(fmt::format("{} is used as a whole and through views", used.name));
  }

  /// Barriers tell places of a recurrence's iteration apart, not a moving one from a fixed one.
  /// What no iteration stores needs none.
  Status check_one_place() const {
    std::map<std::pair<const TileLoop*, TileSymbolId>, std::set<TileSymbolId>> used;
    std::set<std::pair<const TileLoop*, TileSymbolId>> stored;
    for (const Use& store : stores_) stored.emplace(recurrence(*store.site), whole(store.symbol));
    for (const auto* uses : {&reads_, &stores_}) {
      for (const Use& use : *uses) {
        if (recurrence(*use.site) != nullptr)
          used[{recurrence(*use.site), whole(use.symbol)}].insert(use.symbol);
      }
    }
    for (const auto& [where, views] : used) {
      if (stored.count(where) == 0) continue;
      const auto moves = [&](TileSymbolId id) { return !variables(symbol(id).at).empty(); };
      const auto moving = std::ranges::count_if(views, moves);
      if (moving == 0 || moving == static_cast<int64_t>(views.size())) continue;
      return broken(fmt::format("{} shows one place of {} in {}, where others move",
                                symbol(*views.begin()).name, symbol(where.second).name,
                                loop_name(program_, *where.first)));
    }
    return {};
  }

  /// What a view reads is stored by nests before its own, or by an iteration before.
  Status check_order(const Use& read) const {
    const TileSymbolId output = symbol(read.symbol).view_of;
    if (output < 0) return {};
    for (const Use& store : stores_) {
      if (whole(store.symbol) != output || nest_of(*store.site) < nest_of(*read.site)) continue;
      const TileLoop* loop = recurrence(*read.site);
      const bool earlier = loop != nullptr && loop == recurrence(*store.site) &&
                           symbol(store.symbol).at != symbol(read.symbol).at;
      if (earlier) continue;
      return broken(fmt::format("{} is read before `{}` stores what it shows",
                                symbol(read.symbol).name,
                                TilePrinter(program_).statement(*store.site->statement)));
    }
    return {};
  }

  const TileProgram& program_;
  const TileStructure& structure_;
  std::vector<Use> reads_, stores_;
};

}  // namespace

Status verify_views(const TileProgram& program, const TileStructure& structure) {
  return Views(program, structure).run();
}

}  // namespace weft
