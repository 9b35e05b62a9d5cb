#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>
#include <vector>

#include "fmt/format.h"
#include "tile/analysis/executions.h"
#include "tile/analysis/point_set.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/analysis/relate_reads.h"
#include "tile/analysis/view_parts.h"
#include "tile/scope_analysis.h"

namespace weft {
namespace {

/// Beyond these, traffic is a bound: planning predicts it for every kernel.
constexpr int64_t kMostIterations = int64_t{1} << 14;
constexpr int64_t kMostPoints = int64_t{1} << 16;
constexpr int64_t kMostTuples = int64_t{1} << 15;
constexpr int64_t kLargestBitmap = int64_t{1} << 18;

/// One read or write of something in memory.
struct Access {
  TileSymbolId symbol = -1;
  int32_t site = -1;
  const std::vector<IndexExpr>* indices = nullptr;
  std::set<TileVarId> vars;
  std::vector<Guard> guards;
  bool filled = false;  ///< elements outside are not loaded
  bool write = false;
  bool dynamic = false;
  int64_t copies = 1;
};

class Predictor {
 public:
  Predictor(const TileProgram& program, const ScopeAnalysis& scopes)
      : program_(program),
        scopes_(scopes),
        structure_(structure_of(program)),
        places_(program.cpu ? PlaceTable{} : resolve_places(structure_)),
        used_(grid_dependences(structure_, scopes)) {}

  Result<Traffic> run() {
    WEFT_RETURN_IF_ERROR(collect());
    for (const Access& access : accesses_) request(access);
    unique();
    return out_;
  }

  Result<std::vector<NestTraffic>> by_nest() {
    WEFT_RETURN_IF_ERROR(collect());
    std::map<std::tuple<int32_t, TileSymbolId, bool>, std::vector<const Access*>> together;
    for (const Access& access : accesses_) {
      const int32_t nest = structure_.sites[static_cast<size_t>(access.site)].path[0];
      together[{nest, access.symbol, access.write}].push_back(&access);
    }
    std::vector<NestTraffic> out(program_.body.size());
    for (const auto& [of, accesses] : together) {
      const auto [nest, symbol, write] = of;
      NestTraffic& traffic = out[static_cast<size_t>(nest)];
      (write ? traffic.written : traffic.read)[symbol] = distinct_bytes(accesses);
    }
    return out;
  }

 private:
  /// What is bound, and the accesses.
  Status collect() {
    for (const TileVar& var : program_.vars) {
      if (var.kind != TileVar::Kind::kSize || var.extent > 0) continue;
      const TileVarId id = static_cast<TileVarId>(&var - program_.vars.data());
      if (sized_by(id)) {
        return invalid_input(
            fmt::format("tile program {}: traffic needs a bound size {}", program_.name, var.name));
      }
    }
    for (const TileSymbol& symbol : program_.symbols) {
      Shape shape;
      for (const IndexExpr& e : symbol.shape) shape.push_back(extent(e));
      if (!checked_byte_size(symbol.type, shape).has_value()) {
        return invalid_input(fmt::format("tile program {}: the shape of {} is impossible",
                                         program_.name, symbol.name));
      }
    }
    collect_accesses();
    return {};
  }

  /// Whether a loop or a shape depends on the size (the number of blocks may stay open).
  bool sized_by(TileVarId id) const {
    for (const TileSymbol& symbol : program_.symbols) {
      for (const IndexExpr& e : symbol.shape) {
        if (uses_var(e, id)) return true;
      }
    }
    for (const auto& [loop, path] : structure_.loop_path) {
      for (const TileLoop::Dim& dim : loop->dims) {
        if (uses_var(dim.begin, id) || uses_var(dim.end, id)) return true;
      }
    }
    return false;
  }

  bool in_memory(TileSymbolId id) const {
    const size_t i = static_cast<size_t>(id);
    const TileSymbol::Kind kind = program_.symbols[i].kind;
    return kind == TileSymbol::Kind::kInput || kind == TileSymbol::Kind::kOutput ||
           scopes_.symbols[i].scope == Scope::kGrid;
  }

  void collect_accesses() {
    for (const ReadSite& read : structure_.reads) {
      if (read.repeated || !in_memory(read.read->symbol)) continue;
      Access access;
      access.symbol = read.read->symbol;
      access.site = read.site;
      access.indices = &read.read->indices;
      access.vars = read_variables(program_, *read.read);
      access.guards = read.guards;
      access.filled = read.read->fill != nullptr;
      access.dynamic = !read.read->operands.empty();
      for (const Guard& guard : read.guards) {
        visit(std::make_shared<const Scalar>(*guard.condition), [&](const Scalar& s) {
          if (s.kind == Scalar::Kind::kRead) out_.exact = false;
        });
      }
      access.copies = warp_copies(structure_, scopes_, places_, read);
      if (!program_.cpu && !is_one_to_one(access)) out_.exact = false;
      accesses_.push_back(std::move(access));
    }
    for (size_t i = 0; i < structure_.sites.size(); ++i) {
      const Site& site = structure_.sites[i];
      if (site.kind == Site::Kind::kStatement) {
        for (const TileRef& target : site.statement->targets) {
          add_write(static_cast<int32_t>(i), target);
        }
      } else if (site.kind == Site::Kind::kCarry) {
        add_write(static_cast<int32_t>(i), site.carry->target);
      }
    }
  }

  /// Whether no two points of a box read the same element, as those of a window do: a GPU's warp
  /// asks once for what its lanes have in common.
  bool is_one_to_one(const Access& access) const {
    for (const IndexExpr& e : *access.indices) {
      std::set<TileVarId> box;
      add_box_variables(program_, e, &box);
      AffineForm form;
      if (box.size() > 1 && !as_affine(e, &form)) return false;
      // Digits of a number: each beyond what those below it reach.
      std::vector<std::pair<int64_t, int64_t>> digits;  // coefficient, extent
      for (const TileVarId v : box) {
        const int64_t extent = program_.vars[static_cast<size_t>(v)].extent;
        if (box.size() > 1) digits.emplace_back(std::abs(form.coefficient(v)), extent);
      }
      std::sort(digits.begin(), digits.end());
      int64_t reach = 0;
      for (const auto& [coefficient, extent] : digits) {
        if (extent > 1 && coefficient <= reach) return false;
        reach += coefficient * (extent - 1);
      }
    }
    return true;
  }

  void add_write(int32_t site, const TileRef& target) {
    if (!in_memory(target.symbol)) return;
    Access access;
    access.symbol = target.symbol;
    access.site = site;
    access.indices = &target.indices;
    for (const IndexExpr& e : target.indices) add_box_variables(program_, e, &access.vars);
    access.guards = structure_.sites[static_cast<size_t>(site)].guards;
    access.write = true;
    accesses_.push_back(std::move(access));
  }

  /// The points of an access: its own variables and those of the loops around it.
  PointSet points(const Access& access, const std::map<TileVarId, int64_t>& fixed,
                  std::set<TileVarId> vars) const {
    vars.insert(access.vars.begin(), access.vars.end());
    const Site& site = structure_.sites[static_cast<size_t>(access.site)];
    for (const TileLoop* loop : site.loops) {
      for (const TileLoop::Dim& dim : loop->dims) vars.insert(dim.origin);
    }
    for (const Guard& guard : access.guards) {
      add_box_variables(program_, std::make_shared<const Scalar>(*guard.condition), &vars);
    }
    std::set<TileVarId> free;
    if (site.kind == Site::Kind::kCarry) {
      for (const TileLoop::Dim& dim : site.loop->dims) free.insert(dim.offset);
    }
    PointSet set(structure_, vars, free);
    for (const Guard& guard : access.guards) set.add_guard(guard);
    if (access.filled) {
      const std::vector<IndexExpr>& shape =
          program_.symbols[static_cast<size_t>(access.symbol)].shape;
      for (size_t a = 0; a < access.indices->size(); ++a) {
        const IndexExpr& e = (*access.indices)[a];
        const std::vector<int> of_index = variables(e);
        const bool runtime = std::any_of(of_index.begin(), of_index.end(),
                                         [](int id) { return id >= kRuntimeIndexBase; });
        if (!runtime) set.add_bounds(e, {0, extent(shape[a]) - 1});
      }
    }
    for (const auto& [var, value] : fixed) set.add_bounds(IndexExpr::var(var), {value, value});
    return set;
  }

  int64_t extent(const IndexExpr& e) const {
    return evaluate(e, [&](int id) { return program_.vars[static_cast<size_t>(id)].extent; });
  }

  void request(const Access& access) {
    const Site& site = structure_.sites[static_cast<size_t>(access.site)];
    std::vector<TileVarId> around;
    std::set<TileVarId> shown = access.vars;
    for (const TileLoop* loop : site.loops) {
      for (const TileLoop::Dim& dim : loop->dims) {
        shown.insert(dim.origin);
        if (loop->kind != TileLoop::Kind::kSeq) around.push_back(dim.origin);
      }
    }
    const std::set<TileVarId>& used = used_[static_cast<size_t>(access.site)];
    const bool all_used =
        std::all_of(around.begin(), around.end(), [&](TileVarId v) { return used.count(v) != 0; });
    const std::set<TileVarId> inner = inner_grid_origins(site);
    int64_t elements = 0;
    if (is_one_block_each(site, around, inner)) {
      shown.insert(inner.begin(), inner.end());
      elements = count(points(access, {}, shown), shown);
    } else if (all_used && inner.empty()) {
      elements = count(points(access, {}, shown), shown);
    } else if (const auto iterations = grid_iterations(structure_, site, kMostIterations);
               iterations.ok()) {
      elements = counted_by_block(access, *iterations, around, shown);
    } else {
      // As if no block kept anything.
      out_.exact = false;
      shown.insert(inner.begin(), inner.end());
      elements = count(points(access, {}, shown), shown);
    }
    const int64_t bytes = elements *
                          byte_size(program_.symbols[static_cast<size_t>(access.symbol)].type) *
                          access.copies;
    (access.write ? out_.requested_written : out_.requested_read) += bytes;
  }

  /// Elements of an access, each block's share of the iterations gone through.
  int64_t counted_by_block(const Access& access, const GridIterations& iterations,
                           const std::vector<TileVarId>& around, const std::set<TileVarId>& shown) {
    const Site& site = structure_.sites[static_cast<size_t>(access.site)];
    const std::set<TileVarId>& used = used_[static_cast<size_t>(access.site)];
    const auto counts =
        execution_counts(iterations, around, used, blocks_together(structure_, site));
    // The points do not depend on what is not used: count them once for each of the values that
    // are.
    std::map<std::vector<int64_t>, int64_t> known;
    int64_t elements = 0;
    for (const auto& [values, times] : counts) {
      std::map<TileVarId, int64_t> fixed;
      std::vector<int64_t> key;
      for (size_t o = 0; o < around.size(); ++o) {
        fixed[around[o]] = value_of(iterations, around, values, o);
        if (used.count(around[o]) != 0) key.push_back(fixed[around[o]]);
      }
      auto found = known.find(key);
      if (found == known.end()) {
        found = known.emplace(key, count(points(access, fixed, {}), shown)).first;
      }
      elements += times * found->second;
    }
    return elements;
  }

  /// Whether no block goes through two iterations of the nest, whose loops are `around` the site
  /// and `inner` to them, and none makes something for others.
  bool is_one_block_each(const Site& site, const std::vector<TileVarId>& around,
                         const std::set<TileVarId>& inner) const {
    if (blocks_together(structure_, site) > 1) return false;
    const int64_t blocks = site.pack_member >= 0
                               ? structure_.pack_shares[static_cast<size_t>(site.pack_member)]
                               : extent(program_.blocks);
    if (blocks < 1) return true;
    int64_t items = 1;
    for (const auto& origins : {around, std::vector<TileVarId>(inner.begin(), inner.end())}) {
      for (const TileVarId origin : origins) {
        const TileLoop::Dim& dim = structure_.dim(origin);
        for (const IndexExpr& e : {dim.begin, dim.end}) {
          for (const int id : variables(e)) {
            if (program_.vars[static_cast<size_t>(id)].kind != TileVar::Kind::kSize) return false;
          }
        }
        const int64_t length = extent(dim.end) - extent(dim.begin);
        items *= std::max<int64_t>((length + dim.step - 1) / dim.step, 0);
        if (items > blocks) return false;
      }
    }
    return true;
  }

  /// Keys of execution_counts hold the values of `around` in the order of the nest's origins.
  static int64_t value_of(const GridIterations& iterations, const std::vector<TileVarId>& around,
                          const std::vector<int64_t>& values, size_t wanted) {
    size_t next = 0;
    for (const TileVarId origin : iterations.origins) {
      if (std::find(around.begin(), around.end(), origin) == around.end()) continue;
      if (origin == around[wanted]) return values[next];
      ++next;
    }
    return 0;
  }

  int64_t count(const PointSet& set, const std::set<TileVarId>& shown) {
    const int64_t counted = set.count(shown, kMostPoints);
    if (counted >= 0) return counted;
    out_.exact = false;
    return set.bound();
  }

  /// Origins of the grid loops of the nest that lie deeper than the site.
  std::set<TileVarId> inner_grid_origins(const Site& site) const {
    const TileBody* body = nullptr;
    for (const TileLoop* loop : site.loops) {
      if (loop->kind != TileLoop::Kind::kSeq) body = &loop->body;
    }
    std::set<TileVarId> out;
    while (body != nullptr) {
      const TileBody* inner = nullptr;
      for (const TileNode& node : *body) {
        if (node.kind != TileNode::Kind::kLoop || node.loop->kind == TileLoop::Kind::kSeq) continue;
        for (const TileLoop::Dim& dim : node.loop->dims) out.insert(dim.origin);
        inner = &node.loop->body;
      }
      body = inner;
    }
    return out;
  }

  /// Distinct elements per symbol and direction: the union of the images, marked in a bitmap where
  /// one image alone does not give it.
  void unique() {
    for (size_t i = 0; i < program_.symbols.size(); ++i) {
      for (const bool write : {false, true}) {
        std::vector<const Access*> own;
        for (const Access& access : accesses_) {
          if (access.symbol == static_cast<TileSymbolId>(i) && access.write == write) {
            own.push_back(&access);
          }
        }
        if (own.empty()) continue;
        const int64_t bytes = distinct_bytes(own);
        (write ? out_.unique_written : out_.unique_read) += bytes;
        if (!write) out_.unique_read_of.emplace(static_cast<TileSymbolId>(i), bytes);
      }
    }
  }

  /// Requires: of one symbol.
  int64_t distinct_bytes(const std::vector<const Access*>& own) {
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(own[0]->symbol)];
    return distinct(own) * places(symbol) * byte_size(symbol.type);
  }

  /// Places at which a recurrence's iterations see a view.
  int64_t places(const TileSymbol& symbol) {
    if (variables(symbol.at).empty()) return 1;
    const auto all = places_of(structure_, symbol);
    if (!all) {
      out_.exact = false;
      return 1;
    }
    return static_cast<int64_t>(std::set<int64_t>(all->begin(), all->end()).size());
  }

  std::vector<int64_t> shape_of(TileSymbolId id, std::vector<int64_t>* base) const {
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
    std::vector<int64_t> shape;
    const bool parameter =
        symbol.kind == TileSymbol::Kind::kInput || symbol.kind == TileSymbol::Kind::kOutput;
    if (parameter) {
      for (const IndexExpr& e : symbol.shape) shape.push_back(extent(e));
      base->assign(shape.size(), 0);
      return shape;
    }
    const SymbolScope& scope = scopes_.symbols[static_cast<size_t>(id)];
    for (const IndexExpr& e : scope.base) base->push_back(extent(e));
    return scope.extents;
  }

  /// Data-dependent indices reach an element at each point, for all that is known.
  int64_t bound_of(const std::vector<const Access*>& own) const {
    int64_t sum = 0;
    for (const Access* access : own) {
      const int64_t most = points(*access, {}, {}).bound();
      if (__builtin_add_overflow(sum, most, &sum)) return INT64_MAX;
    }
    return sum;
  }

  int64_t distinct(const std::vector<const Access*>& own) {
    std::vector<int64_t> base;
    const std::vector<int64_t> shape = shape_of(own[0]->symbol, &base);
    const int64_t total = element_count(shape).value_or(INT64_MAX);
    std::vector<std::vector<PointSet::Image>> different;
    for (const Access* access : own) {
      std::vector<PointSet::Image> images;
      const PointSet own_points = points(*access, {}, {});
      if (access->dynamic || !own_points.images(*access->indices, &images, kMostTuples)) {
        out_.exact = false;
        return std::min(total, bound_of(own));
      }
      if (std::find(different.begin(), different.end(), images) == different.end()) {
        different.push_back(std::move(images));
      }
    }
    if (different.size() == 1) return PointSet::size(different[0]);
    for (const auto& images : different) {
      if (PointSet::size(images) == total) return total;
    }
    if (total > kLargestBitmap) {
      int64_t sum = 0;
      for (const auto& images : different) sum += PointSet::size(images);
      out_.exact = false;
      return std::min(sum, total);
    }
    std::vector<bool> marked(static_cast<size_t>(total), false);
    for (const auto& images : different) {
      PointSet::for_each_offset(images, shape, base, [&](int64_t offset) {
        if (offset >= 0 && offset < total) marked[static_cast<size_t>(offset)] = true;
      });
    }
    return std::count(marked.begin(), marked.end(), true);
  }

  const TileProgram& program_;
  const ScopeAnalysis& scopes_;
  TileStructure structure_;
  PlaceTable places_;  ///< on a GPU
  std::vector<std::set<TileVarId>> used_;
  std::vector<Access> accesses_;
  Traffic out_;
};

}  // namespace

Result<Traffic> predict_traffic(const TileProgram& program, const ScopeAnalysis& scopes) {
  return Predictor(program, scopes).run();
}

Result<std::vector<NestTraffic>> traffic_by_nest(const TileProgram& program,
                                                 const ScopeAnalysis& scopes) {
  return Predictor(program, scopes).by_nest();
}

}  // namespace weft
