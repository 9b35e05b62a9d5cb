#include "tile/rewrite/reuse_boxes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "support/rounding.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/analysis/same_blocks.h"
#include "tile/rewrite/box_accesses.h"
#include "tile/rewrite/prune_symbols.h"

namespace weft {

namespace {

constexpr int64_t kAlignment = 64;   ///< of a value in the block's arena
constexpr int64_t kLeastBytes = 32;  ///< of a box: a sector of memory

/// A box that a block keeps: where it first has it, and what reads it there later on. Numbers are
/// those of accesses.
struct KeptBox {
  size_t source = 0;
  std::vector<size_t> uses;
  std::vector<IndexExpr> coordinates;  ///< in the variables of the source
  int64_t bytes = 0;
  TileSymbolId kept = -1;
};

/// By nest: barriers of the grid in front of it. Nests between two barriers run side by side.
std::vector<int> phases_of(const TileProgram& program, const ScopeAnalysis& scopes) {
  std::vector<int> out(program.body.size(), 0);
  for (const BarrierPoint& barrier : scopes.barriers) {
    if (barrier.scope != Scope::kGrid || barrier.before.size() != 1) continue;
    for (auto n = static_cast<size_t>(barrier.before[0]); n < out.size(); ++n) ++out[n];
  }
  return out;
}

/// Those of nests that run once, which the program's phases are of.
std::vector<BoxAccess> accesses_of_nests(const TileStructure& structure) {
  std::vector<BoxAccess> out = box_accesses(structure);
  std::erase_if(out, [](const BoxAccess& access) { return access.nest.size() != 1; });
  return out;
}
size_t number_of(const BoxAccess& access) { return static_cast<size_t>(access.nest[0]); }

/// The last access in an earlier phase that has the box of a later one.
std::optional<size_t> earlier_access(const TileStructure& structure,
                                     const std::vector<BoxAccess>& accesses,
                                     const std::vector<int>& phases, size_t later) {
  for (size_t a = later; a-- > 0;) {
    if (accesses[a].tensor != accesses[later].tensor ||
        phases[number_of(accesses[a])] >= phases[number_of(accesses[later])])
      continue;
    if (same_box(structure, accesses[a], accesses[later])) return a;
  }
  return std::nullopt;
}

class BoxKeeping {
 public:
  BoxKeeping(TileProgram& program, const ScopeAnalysis& scopes, int64_t room)
      : program_(program),
        structure_(structure_of(program)),
        accesses_(accesses_of_nests(structure_)),
        phases_(phases_of(program, scopes)),
        room_(room),
        own_bytes_(program.body.size(), 0) {
    for (size_t i = 0; i < program.symbols.size(); ++i) {
      const SymbolScope& scope = scopes.symbols[i];
      if (structure_.definition[i] < 0 || scope.scope != Scope::kBlock) continue;
      const Site& site = structure_.sites[static_cast<size_t>(structure_.definition[i])];
      int64_t& own = own_bytes_[static_cast<size_t>(site.path[0])];
      own = std::max(own, scope.offset + scope.bytes);
    }
  }

  bool run() {
    find_boxes();
    evict();
    std::erase_if(boxes_, [](const KeptBox& box) { return box.uses.empty(); });
    keep_boxes();
    apply();
    return !boxes_.empty();
  }

 private:
  // Which boxes are kept.

  void find_boxes() {
    std::map<size_t, size_t> box_of;  // by access
    for (size_t a = 0; a < accesses_.size(); ++a) {
      if (accesses_[a].read == nullptr) continue;
      const auto before = earlier_access(structure_, accesses_, phases_, a);
      if (!before) continue;
      const auto known = box_of.find(*before);
      if (known != box_of.end()) {
        boxes_[known->second].uses.push_back(a);
        box_of[a] = known->second;
        continue;
      }
      auto box = box_from(*before);
      if (!box) continue;
      box->uses.push_back(a);
      box_of[*before] = box_of[a] = boxes_.size();
      boxes_.push_back(std::move(*box));
    }
  }

  std::optional<KeptBox> box_from(size_t source) const {
    KeptBox box;
    box.source = source;
    auto coordinates = box_coordinates(structure_, accesses_[source]);
    if (!coordinates) return std::nullopt;
    box.coordinates = std::move(*coordinates);
    box.bytes = byte_size(type_of(source));
    for (const IndexExpr& e : box.coordinates) {
      const int64_t elements = elements_along(structure_, e);
      if (elements == 0 || box.bytes > room_) return std::nullopt;
      box.bytes *= elements;
    }
    if (box.bytes < kLeastBytes) return std::nullopt;
    box.bytes = (box.bytes + kAlignment - 1) / kAlignment * kAlignment;
    return box;
  }

  DType type_of(size_t access) const {
    return program_.symbols[static_cast<size_t>(accesses_[access].tensor)].type;
  }
  size_t nest_of(size_t access) const { return number_of(accesses_[access]); }

  /// The first use in nest `n` or behind it.
  std::vector<size_t>::const_iterator next_use(const KeptBox& box, size_t n) const {
    return std::ranges::find_if(box.uses, [&](size_t use) { return nest_of(use) >= n; });
  }
  bool is_alive(const KeptBox& box, size_t n) const {
    return nest_of(box.source) <= n && next_use(box, n) != box.uses.end();
  }

  /// A scan over the nests: where one needs more than there is, the box whose next use is furthest
  /// goes. What reads it next asks memory, and later uses may find it from there on.
  void evict() {
    for (size_t n = 0; n < own_bytes_.size(); ++n) {
      for (;;) {
        int64_t bytes = own_bytes_[n];
        KeptBox* furthest = nullptr;
        for (KeptBox& box : boxes_) {
          if (!is_alive(box, n)) continue;
          bytes += box.bytes;
          const bool later =
              furthest == nullptr || nest_of(*next_use(box, n)) > nest_of(*next_use(*furthest, n));
          if (later) furthest = &box;
        }
        if (bytes <= room_ || furthest == nullptr) break;
        give_up(*furthest, n);
      }
    }
  }

  void give_up(KeptBox& box, size_t n) {
    const auto at = next_use(box, n);
    const std::vector<size_t> left(at, box.uses.cend());
    box.uses.erase(at, box.uses.cend());
    auto rest = box_from(left[0]);
    if (!rest) return;
    for (const size_t use : left) {
      if (nest_of(use) > nest_of(left[0])) rest->uses.push_back(use);
    }
    if (!rest->uses.empty()) boxes_.push_back(std::move(*rest));
  }

  // The program with them.

  /// A statement with what goes before and behind it.
  struct Edit {
    TileStatement statement;
    TileBody before, behind;
  };

  Edit& edit(size_t access) {
    const Site& site = structure_.sites[static_cast<size_t>(accesses_[access].site)];
    const auto [at, is_new] = edits_.try_emplace(site.path);
    if (is_new) at->second.statement = *site.statement;
    return at->second;
  }

  TileSymbolId add_value(size_t access, const std::string& suffix) {
    TileSymbol symbol;
    const std::string base =
        program_.symbols[static_cast<size_t>(accesses_[access].tensor)].name + suffix;
    symbol.name = base;
    for (int n = 1; is_taken(symbol.name); ++n) symbol.name = base + std::to_string(n);
    symbol.type = type_of(access);
    return program_.add_symbol(std::move(symbol));
  }
  bool is_taken(const std::string& name) const {
    return program_.find_symbol(name) >= 0 ||
           std::ranges::any_of(program_.vars, [&](const TileVar& v) { return v.name == name; });
  }

  /// Of a place the axes that the coordinates run along.
  Place place_along(const Place& place, const std::vector<IndexExpr>& coordinates) const {
    std::set<TileVarId> box;
    for (const IndexExpr& e : coordinates) add_box_variables(program_, e, &box);
    Place out;
    for (const Place::Axis& axis : place.axes) {
      if (box.count(axis.var) != 0) out.axes.push_back(axis);
    }
    return out;
  }

  /// Whether indices run along no more than the box.
  bool runs_along(const KeptBox& box, const std::vector<IndexExpr>& indices) const {
    std::set<TileVarId> own, of_box;
    for (const IndexExpr& e : indices) add_box_variables(program_, e, &own);
    for (const IndexExpr& e : box.coordinates) add_box_variables(program_, e, &of_box);
    return std::ranges::includes(of_box, own);
  }

  static bool is_value(const TileProgram& program, TileSymbolId id) {
    return program.symbols[static_cast<size_t>(id)].kind == TileSymbol::Kind::kValue;
  }

  /// The source's value in registers, from where its nest goes on with it.
  ScalarRef value_of_source(const KeptBox& box, Edit& e) {
    const BoxAccess& access = accesses_[box.source];
    TileStatement& st = e.statement;
    const bool alone = st.combiner == TileCombiner::kNone && st.targets.size() == 1;
    if (access.read != nullptr) {
      const TileRef& target = st.targets[0];
      if (alone && equal(st.value, access.read) && is_value(program_, target.symbol) &&
          runs_along(box, target.indices))
        return scalar_read(target.symbol, access.read->type, target.indices);
    } else if (alone && st.value->kind == Scalar::Kind::kRead && !st.value->next &&
               st.value->operands.empty() && st.value->fill == nullptr &&
               is_value(program_, static_cast<TileSymbolId>(st.value->symbol))) {
      return st.value;
    }
    const TileSymbolId id = add_value(box.source, "_v");
    TileStatement made = st;
    made.targets = {{id, box.coordinates, false}};
    const ScalarRef value = scalar_read(id, type_of(box.source), box.coordinates);
    if (access.read != nullptr) {
      made.value = access.read;
      made.combiner = TileCombiner::kNone;
      made.reduce_axes.clear();
      made.unit.clear();
      made.type.reset();
      made.demand.reset();
      st.value = replaced(st.value, access.read, value);
    } else {
      made.type = made.value->type == value->type ? std::nullopt : std::optional(value->type);
      st.combiner = TileCombiner::kNone;
      st.reduce_axes.clear();
      st.unit.clear();
      st.type.reset();
      st.value = value;
      st.place = place_along(st.place, box.coordinates);
    }
    if (access.read != nullptr) made.place = place_along(made.place, box.coordinates);
    e.before.push_back(TileNode::of(std::move(made)));
    return value;
  }

  static ScalarRef replaced(const ScalarRef& in, const ScalarRef& read, const ScalarRef& by) {
    return rewrite(in, {}, [&](const ScalarRef& r) { return equal(r, read) ? by : r; });
  }

  /// Readers first, then what is loaded, then what is stored: a statement may do all three.
  void keep_boxes() {
    for (KeptBox& box : boxes_) {
      box.kept = add_value(box.source, "_kept");
      for (const size_t use : box.uses) read_kept(box, use);
    }
    for (const bool stores : {false, true}) {
      for (const KeptBox& box : boxes_) {
        if ((accesses_[box.source].read == nullptr) == stores) keep(box);
      }
    }
  }

  void read_kept(const KeptBox& box, size_t use) {
    const BoxAccess& access = accesses_[use];
    std::map<TileVarId, TileVarId> here;
    const SameVariables same = *same_box(structure_, accesses_[box.source], access);
    for (const auto& [later, earlier] : same) here[earlier] = later;
    std::vector<IndexExpr> at;
    for (const IndexExpr& c : box.coordinates) {
      at.push_back(substitute(c, [&](int v) {
        const auto own = here.find(v);
        return IndexExpr::var(own == here.end() ? v : own->second);
      }));
    }
    TileStatement& reader = edit(use).statement;
    reader.value =
        replaced(reader.value, access.read, scalar_read(box.kept, type_of(use), std::move(at)));
  }

  void keep(const KeptBox& box) {
    Edit& e = edit(box.source);
    const size_t before = e.before.size();
    TileStatement kept;
    kept.value = value_of_source(box, e);
    const DType type = type_of(box.source);
    kept.targets = {{box.kept, box.coordinates, false}};
    if (kept.value->type != type) kept.type = type;
    kept.place = place_along(e.statement.place, box.coordinates);
    // A load that only this program has stands before its readers, and so does the copy.
    const bool loaded = accesses_[box.source].read != nullptr && e.before.size() > before;
    (loaded ? e.before : e.behind).push_back(TileNode::of(std::move(kept)));
  }

  /// From the last statement to the first, so that the places of the others stay.
  void apply() {
    if (edits_.empty()) return;
    program_.body = cloned(program_.body);
    for (auto& [path, e] : std::views::reverse(edits_)) {
      TileBody* body = &program_.body;
      for (size_t i = 0; i + 1 < path.size(); ++i)
        body = &(*body)[static_cast<size_t>(path[i])].loop->body;
      const auto at = body->begin() + path.back();
      at->statement = std::move(e.statement);
      body->insert(at + 1, std::make_move_iterator(e.behind.begin()),
                   std::make_move_iterator(e.behind.end()));
      body->insert(body->begin() + path.back(), std::make_move_iterator(e.before.begin()),
                   std::make_move_iterator(e.before.end()));
    }
  }

  TileProgram& program_;
  TileStructure structure_;
  std::vector<BoxAccess> accesses_;
  std::vector<int> phases_;
  int64_t room_;
  std::vector<int64_t> own_bytes_;  ///< of the block's memory, by nest
  std::vector<KeptBox> boxes_;
  std::map<std::vector<int32_t>, Edit> edits_;  ///< by path
};

}  // namespace

Result<bool> reuse_boxes(TileProgram& program, int64_t room) {
  WEFT_ASSIGN_OR_RETURN(const ScopeAnalysis scopes, derive_scopes(program));
  const bool changed = BoxKeeping(program, scopes, room).run();
  if (changed) prune_symbols(program);
  return changed;
}

namespace {

/// Times that a site runs: in each step of a recurrence.
int64_t steps_around(const Site& site) {
  if (site.loops.empty() || !is_recurrence(*site.loops.front())) return 1;
  const TileLoop::Dim& steps = site.loops.front()->dims[0];
  return steps.end.is_const() ? steps.end.constant() : 1;
}

}  // namespace

BoxReuse reuse_of(const TileProgram& program, const ScopeAnalysis& scopes) {
  BoxReuse out;
  out.saved_by_nest.assign(program.body.size(), 0);
  if (program.cpu || program.body.size() < 2) return out;
  const TileStructure structure = structure_of(program);
  const std::set<TileSymbolId> kept = kept_for_later_nests(structure, scopes);
  for (const TileSymbolId id : kept) {
    const auto symbol = static_cast<size_t>(id);
    out.kept_bytes += scopes.symbols[symbol].bytes;
    const Site& maker = structure.sites[static_cast<size_t>(structure.definition[symbol])];
    int64_t bytes = byte_size(program.symbols[symbol].type);
    for (const IndexExpr& e : maker.statement->targets[0].indices)
      bytes *= elements_of_all_blocks(structure, e);
    for (const ReadSite* read : structure.reads_of(id)) {
      const Site& reader = structure.sites[static_cast<size_t>(read->site)];
      if (read->repeated || reader.path[0] == maker.path[0]) continue;
      ++out.hits;
      const int64_t saved = bytes * steps_around(reader);
      out.saved_bytes += saved;
      out.saved_by_nest[static_cast<size_t>(reader.path[0])] += saved;
    }
  }
  const std::vector<BoxAccess> accesses = accesses_of_nests(structure);
  const std::vector<int> phases = phases_of(program, scopes);
  for (size_t a = 0; a < accesses.size(); ++a) {
    if (accesses[a].read == nullptr || !earlier_access(structure, accesses, phases, a)) continue;
    ++out.evictions;
    const TileSymbolId read = accesses[a].read->symbol;
    const TileSymbolId viewed = program.symbols[static_cast<size_t>(read)].view_of;
    out.given_up.push_back(viewed >= 0 ? viewed : read);
  }
  return out;
}

}  // namespace weft
