#include <algorithm>
#include <cmath>
#include <map>

#include "fmt/format.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/analysis/point_set.h"
#include "tile/analysis/relate_reads.h"
#include "tile/check/verify_tile_program.h"
#include "tile/scope_analysis.h"
#include "tile/text/tile_printer.h"
#include "tile/tile_structure.h"

namespace weft {

/// Whether every output element is written by exactly one statement, once; in verify_stores.cpp.
Status verify_stores(const TileProgram& program, const TileStructure& structure);

/// Whether views lie within what they show, and what they read was stored before; in
/// verify_views.cpp.
Status verify_views(const TileProgram& program, const TileStructure& structure);

/// Loops `ahead` may be so, and nothing touches what they load; in verify_loads_ahead.cpp.
Status verify_loads_ahead(const TileProgram& program, const TileStructure& structure,
                          const ScopeAnalysis& scopes);

namespace {

constexpr int kDeepestNest = 64;

class Verifier {
 public:
  /// `known`: its scopes, or null.
  explicit Verifier(const TileProgram& program, const ScopeAnalysis* known = nullptr)
      : program_(program), known_(known) {}

  Status run() {
    check_tables();
    if (!error_) check_body(program_.body, {});
    if (error_) return *error_;
    // From here on every id is in range and every loop well formed.
    structure_ = structure_of(program_);
    printer_.emplace(program_);
    check_definitions();
    for (const Site& site : structure_.sites) {
      if (!error_) check_site(site);
    }
    for (const ReadSite& read : structure_.reads) {
      if (!error_) check_read(read);
    }
    if (error_) return *error_;
    WEFT_RETURN_IF_ERROR(verify_views(program_, structure_));
    ScopeAnalysis derived;
    if (known_ == nullptr) {
      WEFT_ASSIGN_OR_RETURN(derived, derive_scopes(program_));
      known_ = &derived;
    }
    check_fills(*known_);
    if (error_) return *error_;
    WEFT_RETURN_IF_ERROR(verify_loads_ahead(program_, structure_, *known_));
    return verify_stores(program_, structure_);
  }

 private:
  void fail(std::string what) {
    if (!error_) {
      error_ = invalid_input(fmt::format("tile program {}: {}", program_.name, what));
    }
  }
  const std::string& name(TileSymbolId id) const {
    return program_.symbols[static_cast<size_t>(id)].name;
  }
  TileSymbol::Kind kind(TileSymbolId id) const {
    return program_.symbols[static_cast<size_t>(id)].kind;
  }
  std::string shown(const Site& site) const {
    if (site.kind == Site::Kind::kStatement)
      return "`" + printer_->statement(*site.statement) + "`";
    if (site.kind == Site::Kind::kCarry) return "carry " + name(site.carry->target.symbol);
    return "`if " + printer_->scalar(site.value, DType::kBool) + "`";
  }
  std::string shown(const Scalar& read) const {
    return printer_->scalar(std::make_shared<const Scalar>(read), std::nullopt);
  }

  // Tables.
  bool is_var(int id) const { return id >= 0 && id < static_cast<int>(program_.vars.size()); }
  bool is_symbol(int id) const { return id >= 0 && id < static_cast<int>(program_.symbols.size()); }

  void check_tables() {
    for (const TileVar& var : program_.vars) {
      const bool sized = var.kind == TileVar::Kind::kOffset || var.kind == TileVar::Kind::kAxis;
      if (sized && var.extent < 1) fail(fmt::format("{} has extent {}", var.name, var.extent));
      if (var.extent < 0 || var.extent > kUnbounded.hi) fail(fmt::format("extent of {}", var.name));
    }
    if (program_.warps < 1) fail("warps below 1");
    std::set<std::string> names;
    std::set<TileSymbolId> parameters;
    for (const TileSymbolId id : program_.parameters) {
      if (!is_symbol(id) || !parameters.insert(id).second)
        return fail("a parameter is named twice");
      if (!names.insert(name(id)).second)
        fail(fmt::format("two parameters are called {}", name(id)));
      for (const IndexExpr& e : program_.symbols[static_cast<size_t>(id)].shape) check_sizes(e);
    }
    for (size_t i = 0; i < program_.symbols.size(); ++i) {
      const TileSymbolId id = static_cast<TileSymbolId>(i);
      const TileSymbolId viewed = program_.symbols[i].view_of;
      if (viewed != -1) {
        check_view(id, parameters);
        continue;
      }
      if (program_.symbols[i].is_workspace) {
        for (const IndexExpr& e : program_.symbols[i].shape) check_sizes(e);
        if (kind(id) == TileSymbol::Kind::kOutput && parameters.count(id) == 0) continue;
        fail(fmt::format("{} is a workspace and a parameter or value", name(id)));
        continue;
      }
      const bool parameter =
          kind(id) == TileSymbol::Kind::kInput || kind(id) == TileSymbol::Kind::kOutput;
      if (parameter != (parameters.count(id) != 0)) {
        fail(fmt::format("{} is not in the list of parameters", name(id)));
      }
    }
    check_sizes(program_.blocks);
    if (program_.one_cluster &&
        (program_.cpu || !program_.blocks.is_const() || program_.blocks.constant() < 1)) {
      fail("one cluster of a CPU's blocks, or of an unknown number");
    }
  }

  void check_view(TileSymbolId id, const std::set<TileSymbolId>& parameters) {
    const TileSymbol& view = program_.symbols[static_cast<size_t>(id)];
    const bool known = is_symbol(view.view_of) && parameters.count(id) == 0;
    const TileSymbol* whole =
        known ? &program_.symbols[static_cast<size_t>(view.view_of)] : nullptr;
    const bool in_memory =
        known && (parameters.count(view.view_of) != 0 || whole->is_workspace) &&
        (view.kind == TileSymbol::Kind::kInput || view.kind == TileSymbol::Kind::kOutput);
    const bool stores = known && view.kind == TileSymbol::Kind::kOutput;
    if (!in_memory || (stores && whole->kind != TileSymbol::Kind::kOutput)) {
      return fail(fmt::format("{} is a view of something else than {}", name(id),
                              stores ? "an output" : "a parameter or a workspace"));
    }
    for (const IndexExpr& e : view.shape) check_sizes(e);
    check_ids(view.at);
  }

  /// A bound on every number that evaluating the index meets: index arithmetic must not overflow.
  double magnitude(const IndexExpr& e) const {
    switch (e.op()) {
      case IndexOp::kConst:
        return std::abs(static_cast<double>(e.constant()));
      case IndexOp::kVar: {
        const auto origin = origin_magnitude_.find(e.var_id());
        if (origin != origin_magnitude_.end()) return origin->second;
        return is_var(e.var_id())
                   ? static_cast<double>(program_.vars[static_cast<size_t>(e.var_id())].extent) + 1
                   : 1;
      }
      case IndexOp::kMul:
        return magnitude(e.lhs()) * magnitude(e.rhs());
      default:
        return magnitude(e.lhs()) + magnitude(e.rhs());
    }
  }
  static constexpr double kLargestIndex = 1.2e15;

  void check_sizes(const IndexExpr& e) {
    if (magnitude(e) > kLargestIndex) fail("a size beyond 2^50");
    for (const int id : variables(e)) {
      if (!is_var(id) || program_.vars[static_cast<size_t>(id)].kind != TileVar::Kind::kSize) {
        fail("a shape or the number of blocks names something else than a size");
      }
    }
  }

  // Nesting.
  struct Around {
    int depth = 0;
    bool in_grid = false, in_seq = false, in_condition = false, in_pack = false;
  };

  void check_body(const TileBody& body, Around around) {
    if (++around.depth > kDeepestNest) return fail("loops are nested too deeply");
    int grids = 0;
    for (const TileNode& node : body) {
      if (error_) return;
      switch (node.kind) {
        case TileNode::Kind::kStatement:
          check_ids(node.statement);
          break;
        case TileNode::Kind::kLoop:
          if (node.loop->kind != TileLoop::Kind::kSeq) ++grids;
          check_loop(*node.loop, around);
          break;
        case TileNode::Kind::kCondition: {
          check_ids(node.condition->condition);
          Around inside = around;
          inside.in_condition = true;
          check_body(node.condition->body, inside);
          break;
        }
        case TileNode::Kind::kPack: {
          if (around.in_grid || around.in_seq || around.in_condition || around.in_pack) {
            return fail("a pack stands inside a loop, a condition or another pack");
          }
          if (program_.one_cluster) return fail("a pack on the blocks of one cluster");
          Around inside = around;
          inside.in_pack = true;
          for (const TilePack::Member& member : node.pack->members) {
            if (member.share < 1) fail("a member of a pack has no blocks");
            check_body(member.body, inside);
          }
          break;
        }
      }
    }
    if (grids > 1 && around.in_grid) {
      fail("two grid loops stand side by side inside a grid loop: write two nests");
    }
  }

  void check_loop(const TileLoop& loop, Around around) {
    if (loop.dims.empty()) return fail("a loop has no variable");
    const std::string what = is_var(loop.dims[0].origin) ? loop_name(program_, loop) : "a loop";
    if (loop.kind != TileLoop::Kind::kSeq) {
      if (around.in_seq) return fail(fmt::format("{} stands inside a seq loop", what));
      if (around.in_condition) return fail(fmt::format("{} stands inside a condition", what));
      if (!loop.carries.empty()) return fail(fmt::format("{} carries values", what));
      if (loop.kind == TileLoop::Kind::kCluster && !around.in_grid) {
        return fail(fmt::format("{} stands outside a grid loop", what));
      }
      around.in_grid = true;
    } else if (around.depth == 1 && !around.in_pack && is_recurrence(loop)) {
      check_recurrence(loop, what);
    } else {
      around.in_seq = true;
    }
    if (loop.by_cluster) check_by_cluster(loop, around, what);
    if (loop.stages < 1) fail(fmt::format("{} has {} stages", what, loop.stages));
    for (const TileLoop::Dim& dim : loop.dims) check_dim(dim);
    for (const TileCarry& carry : loop.carries) {
      check_ids(carry.initial);
      if (!is_symbol(carry.target.symbol)) return fail("a carry has no symbol");
      if (kind(carry.target.symbol) != TileSymbol::Kind::kCarry) {
        return fail(fmt::format("{} is carried and not of that kind", name(carry.target.symbol)));
      }
      for (const IndexExpr& e : carry.target.indices) check_ids(e);
      check_ids(carry.place);
    }
    if (!error_) check_body(loop.body, around);
  }

  /// Each iteration runs the nests of the body; only views tell iterations apart.
  void check_recurrence(const TileLoop& loop, const std::string& what) {
    const TileLoop::Dim& dim = loop.dims[0];
    const bool counted = dim.begin.is_const(0) && dim.end.is_const() && dim.step == 1 &&
                         dim.unroll == 1 && loop.dims.size() == 1 && loop.stages == 1;
    if (program_.cpu) return fail(fmt::format("{} runs nests on a CPU", what));
    if (!counted || !loop.carries.empty() || loop.by_cluster) {
      return fail(
          fmt::format("{} runs nests and is no plain loop of a known number of iterations", what));
    }
    for (const TileNode& node : loop.body) {
      if (node.kind != TileNode::Kind::kLoop || node.loop->kind != TileLoop::Kind::kGrid)
        return fail(fmt::format("{} runs nests and something else", what));
    }
  }

  /// `around`: with the loop itself.
  void check_by_cluster(const TileLoop& loop, const Around& around, const std::string& what) {
    constexpr int kInGridLoop = 2;
    if (program_.cpu || loop.kind != TileLoop::Kind::kSeq || !around.in_grid ||
        around.depth != kInGridLoop) {
      return fail(what + " is made by a cluster and does not stand directly in a GPU's grid loop");
    }
    if (loop.dims.size() != 1 || !loop.carries.empty() || loop.stages != 1) {
      return fail(what + " is made by a cluster and has several variables, carries or stages");
    }
    for (const TileNode& node : loop.body) {
      if (node.kind != TileNode::Kind::kStatement) {
        return fail(what + " is made by a cluster and holds more than statements");
      }
      for (const TileRef& target : node.statement.targets) {
        const auto along = [&](const IndexExpr& e) { return uses_var(e, loop.dims[0].origin); };
        if (std::ranges::none_of(target.indices, along)) {
          return fail(what + " is made by a cluster and makes one value in all iterations");
        }
      }
    }
  }

  void check_dim(const TileLoop::Dim& dim) {
    const bool origin = is_var(dim.origin) && program_.vars[static_cast<size_t>(dim.origin)].kind ==
                                                  TileVar::Kind::kOrigin;
    const bool offset = dim.offset < 0 || (is_var(dim.offset) &&
                                           program_.vars[static_cast<size_t>(dim.offset)].kind ==
                                               TileVar::Kind::kOffset);
    if (!origin || !offset) return fail("a loop's variables are of another kind");
    const std::string& called = program_.vars[static_cast<size_t>(dim.origin)].name;
    if (!loop_vars_.insert(dim.origin).second) {
      return fail(fmt::format("two loops share the variable {}", called));
    }
    if (dim.step < 1 || (dim.step > 1) != (dim.offset >= 0)) {
      return fail(fmt::format("loop {} of step {} {} an offset", called, dim.step,
                              dim.offset >= 0 ? "has" : "lacks"));
    }
    if (dim.offset >= 0 && program_.vars[static_cast<size_t>(dim.offset)].extent != dim.step) {
      fail(fmt::format("the offset of loop {} does not run over its step", called));
    }
    if (dim.unroll < 0) fail(fmt::format("loop {} is unrolled {} times", called, dim.unroll));
    for (const IndexExpr& e : {dim.begin, dim.end}) check_ids(e);
    origin_magnitude_[dim.origin] = std::max(magnitude(dim.begin), magnitude(dim.end));
  }

  // Ids.
  void check_ids(const IndexExpr& e, size_t runtime = 0) {
    for (const int id : variables(e)) {
      const bool at_runtime =
          id >= kRuntimeIndexBase && id - kRuntimeIndexBase < static_cast<int>(runtime);
      if (!is_var(id) && !at_runtime) fail("an index names a variable that does not exist");
    }
    if (magnitude(e) > kLargestIndex) fail("an index beyond 2^50");
  }
  void check_ids(const ScalarRef& s) {
    if (s == nullptr) return fail("an expression is missing");
    visit(s, [&](const Scalar& node) {
      if (node.kind == Scalar::Kind::kIndex) check_ids(node.index);
      for (const IndexExpr& e : node.indices) check_ids(e, node.operands.size());
      if (node.kind == Scalar::Kind::kRead && !is_symbol(node.symbol)) {
        fail("a read names a symbol that does not exist");
      }
    });
  }
  void check_ids(const Place& place) {
    for (const Place::Axis& axis : place.axes) {
      if (!is_var(axis.var)) return fail("a place names a variable that does not exist");
      for (const Place::Digit& digit : axis.digits) {
        if (digit.extent < 1) fail("a place has an empty digit");
      }
    }
  }
  void check_ids(const TileStatement& s) {
    check_ids(s.value);
    check_ids(s.place);
    const bool pair = s.combiner == TileCombiner::kArgMax || s.combiner == TileCombiner::kWelford;
    if (s.targets.size() != (pair ? 2U : 1U)) return fail("a statement has the wrong targets");
    for (const TileRef& target : s.targets) {
      if (!is_symbol(target.symbol)) return fail("a statement makes a symbol that does not exist");
      for (const IndexExpr& e : target.indices) check_ids(e);
    }
    for (const TileVarId axis : s.reduce_axes) {
      const bool box = is_var(axis) && program_.vars[static_cast<size_t>(axis)].extent > 0 &&
                       (program_.vars[static_cast<size_t>(axis)].kind == TileVar::Kind::kAxis ||
                        program_.vars[static_cast<size_t>(axis)].kind == TileVar::Kind::kOffset);
      if (!box) return fail("a reduced axis is no axis of a tile");
    }
  }

  // Names.
  void check_definitions() {
    std::vector<int> makers(program_.symbols.size(), 0);
    for (const Site& site : structure_.sites) {
      if (site.kind == Site::Kind::kCarry) ++makers[static_cast<size_t>(site.carry->target.symbol)];
      if (site.kind != Site::Kind::kStatement) continue;
      for (const TileRef& target : site.statement->targets) {
        if (kind(target.symbol) == TileSymbol::Kind::kValue) {
          ++makers[static_cast<size_t>(target.symbol)];
        }
      }
    }
    for (size_t i = 0; i < makers.size(); ++i) {
      const TileSymbolId id = static_cast<TileSymbolId>(i);
      if (makers[i] > 1) fail(fmt::format("{} is made by {} statements", name(id), makers[i]));
      const bool needs =
          kind(id) == TileSymbol::Kind::kValue || kind(id) == TileSymbol::Kind::kCarry;
      if (needs && makers[i] == 0 && !structure_.reads_of(id).empty()) {
        fail(fmt::format("{} is read and never made", name(id)));
      }
    }
  }

  /// Loop variables may stand inside their loops only; a carry's box may use its own loop's
  /// offsets.
  void check_scope(const IndexExpr& e, const Site& site) {
    for (const int id : variables(e)) {
      const TileVar::Kind var_kind = id < kRuntimeIndexBase
                                         ? program_.vars[static_cast<size_t>(id)].kind
                                         : TileVar::Kind::kSize;
      if (var_kind != TileVar::Kind::kOrigin && var_kind != TileVar::Kind::kOffset) continue;
      const auto loop = structure_.dim_of.find(id);
      const bool inside =
          loop != structure_.dim_of.end() &&
          std::find(site.loops.begin(), site.loops.end(), loop->second.first) != site.loops.end();
      const bool own = loop != structure_.dim_of.end() && site.kind == Site::Kind::kCarry &&
                       loop->second.first == site.loop && var_kind == TileVar::Kind::kOffset;
      if (!inside && !own) {
        fail(fmt::format("{} uses {} outside its loop", shown(site),
                         program_.vars[static_cast<size_t>(id)].name));
      } else if (is_recurrence(*loop->second.first)) {
        fail(fmt::format("{} uses {}, which only views may", shown(site),
                         program_.vars[static_cast<size_t>(id)].name));
      }
    }
  }

  void check_site(const Site& site) {
    visit(site.value, [&](const Scalar& node) {
      if (node.kind == Scalar::Kind::kIndex) check_scope(node.index, site);
      for (const IndexExpr& e : node.indices) check_scope(e, site);
    });
    switch (site.kind) {
      case Site::Kind::kStatement:
        return check_statement(site);
      case Site::Kind::kCarry:
        for (const IndexExpr& e : site.carry->target.indices) check_scope(e, site);
        check_carry(site);
        return;
      case Site::Kind::kCondition:
        if (site.value->type != DType::kBool) fail(fmt::format("{} is no bool", shown(site)));
        std::set<TileVarId> vars;
        add_box_variables(program_, site.value, &vars);
        if (!vars.empty()) {
          fail(fmt::format("{} depends on {}, which runs within a tile", shown(site),
                           program_.vars[static_cast<size_t>(*vars.begin())].name));
        }
        return;
    }
  }

  void check_carry(const Site& site) {
    const TileCarry& carry = *site.carry;
    const DType type = program_.symbols[static_cast<size_t>(carry.target.symbol)].type;
    if (carry.type != type || carry.initial->type != type) {
      fail(fmt::format("{} is {} and begins as {}", shown(site), dtype_name(type),
                       dtype_name(carry.initial->type)));
    }
    if (carry.target.next) fail(fmt::format("{} begins with its next value", shown(site)));
    std::set<TileVarId> box;
    for (const IndexExpr& e : carry.target.indices) add_box_variables(program_, e, &box);
    std::set<TileVarId> of_initial;
    add_box_variables(program_, carry.initial, &of_initial);
    for (const TileVarId var : of_initial) {
      if (box.count(var) == 0) {
        fail(fmt::format("{} begins with {}, which is no axis of its box", shown(site),
                         program_.vars[static_cast<size_t>(var)].name));
      }
    }
    check_place(carry.place, box, site);
  }

  void check_statement(const Site& site) {
    const TileStatement& s = *site.statement;
    std::set<TileVarId> result;
    for (const TileRef& target : s.targets) {
      std::set<TileVarId> own;
      for (const IndexExpr& e : target.indices) {
        check_scope(e, site);
        add_box_variables(program_, e, &own);
      }
      if (&target != &s.targets[0] && own != result) {
        fail(fmt::format("the two results of {} differ in their axes", shown(site)));
      }
      result = own;
      check_target(site, s, target);
    }
    std::set<TileVarId> box = result;
    for (const TileVarId axis : s.reduce_axes) {
      if (!box.insert(axis).second) {
        fail(fmt::format("{} reduces {} and keeps it", shown(site),
                         program_.vars[static_cast<size_t>(axis)].name));
      }
      check_scope(IndexExpr::var(axis), site);
    }
    if ((s.combiner == TileCombiner::kNone) != s.reduce_axes.empty()) {
      fail(fmt::format("{} reduces over nothing", shown(site)));
    }
    if (s.combiner == TileCombiner::kArgMax && s.reduce_axes.size() != 1) {
      fail(fmt::format("{} finds a position along more than one axis", shown(site)));
    }
    if (s.combiner == TileCombiner::kWelford && !is_float(s.value->type)) {
      fail(fmt::format("{} takes mean and variance of {}", shown(site), dtype_name(s.value->type)));
    }
    std::set<TileVarId> of_value;
    add_box_variables(program_, s.value, &of_value);
    for (const TileVarId var : of_value) {
      if (box.count(var) == 0) {
        fail(fmt::format("{} reads along {}, which it neither keeps nor reduces", shown(site),
                         program_.vars[static_cast<size_t>(var)].name));
      }
    }
    check_place(s.place, box, site);
  }

  void check_target(const Site& site, const TileStatement& s, const TileRef& target) {
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(target.symbol)];
    if (s.assign != AssignOp::kAssign && symbol.kind != TileSymbol::Kind::kOutput) {
      fail(fmt::format("{} scatters into something else than an output", shown(site)));
    }
    if (target.next != (symbol.kind == TileSymbol::Kind::kCarry)) {
      fail(fmt::format("{} must assign the next value of a carry, and only that", shown(site)));
    }
    if (symbol.kind == TileSymbol::Kind::kInput)
      fail(fmt::format("{} assigns an input", shown(site)));
    const size_t rank = rank_of(target.symbol);
    if (target.indices.size() != rank) {
      fail(fmt::format("{} gives {} of {} coordinates of {}", shown(site), target.indices.size(),
                       rank, symbol.name));
    }
    if (symbol.kind != TileSymbol::Kind::kCarry || error_) return;
    const Site& carry =
        structure_
            .sites[static_cast<size_t>(structure_.definition[static_cast<size_t>(target.symbol)])];
    if (std::find(site.loops.begin(), site.loops.end(), carry.loop) == site.loops.end()) {
      fail(fmt::format("{} stands outside the loop that carries {}", shown(site), symbol.name));
    }
    check_update_box(site, carry, target);
  }

  /// What an update makes lies within the carry's box.
  void check_update_box(const Site& site, const Site& carry, const TileRef& target) {
    const auto fixed = [&](TileVarId var) {
      const auto loop = structure_.dim_of.find(var);
      return loop != structure_.dim_of.end() && std::find(carry.loops.begin(), carry.loops.end(),
                                                          loop->second.first) != carry.loops.end();
    };
    const IndexBounds bounds(structure_);
    for (size_t a = 0; a < target.indices.size(); ++a) {
      const Coordinate box = coordinate_of(carry.carry->target.indices[a], bounds, fixed);
      const Coordinate own = coordinate_of(target.indices[a], bounds, fixed);
      const Interval apart = bounds.of(own.outer - box.outer);
      const bool inside =
          apart.lo + own.inner.lo >= box.inner.lo && apart.hi + own.inner.hi <= box.inner.hi;
      if (!inside && box.separable && own.separable) {
        fail(fmt::format("{} leaves the box of {} along coordinate {}", shown(site),
                         name(target.symbol), a));
      }
    }
  }

  size_t rank_of(TileSymbolId id) const {
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
    if (symbol.kind == TileSymbol::Kind::kInput || symbol.kind == TileSymbol::Kind::kOutput) {
      return symbol.shape.size();
    }
    const Site& site =
        structure_.sites[static_cast<size_t>(structure_.definition[static_cast<size_t>(id)])];
    if (site.kind == Site::Kind::kCarry) return site.carry->target.indices.size();
    for (const TileRef& target : site.statement->targets) {
      if (target.symbol == id) return target.indices.size();
    }
    return 0;
  }

  void check_place(const Place& place, const std::set<TileVarId>& box, const Site& site) {
    std::set<TileVarId> placed;
    int64_t products[4] = {1, 1, 1, 1};
    int vectors = 0;
    for (const Place::Axis& axis : place.axes) {
      const TileVar& var = program_.vars[static_cast<size_t>(axis.var)];
      const bool of_box = box.count(axis.var) != 0;
      if (!placed.insert(axis.var).second || (program_.cpu && !of_box)) {
        return fail(
            fmt::format("{} places {}, which is not one axis of its box", shown(site), var.name));
      }
      if (!of_box) check_scope(IndexExpr::var(axis.var), site);
      int64_t covered = 1;
      for (const Place::Digit& digit : axis.digits) {
        covered *= digit.extent;
        products[static_cast<size_t>(digit.level)] *= digit.extent;
        vectors += digit.level == PlaceLevel::kVec ? 1 : 0;
        if (covered > kUnbounded.hi)
          return fail(fmt::format("{} has too large a place", shown(site)));
      }
      if (of_box && covered < var.extent) {
        fail(fmt::format("{} places {} of the {} elements along {}", shown(site), covered,
                         var.extent, var.name));
      }
    }
    const int64_t warps = products[static_cast<size_t>(PlaceLevel::kWarp)];
    const int64_t lanes = products[static_cast<size_t>(PlaceLevel::kLane)];
    if (program_.cpu && (warps > 1 || lanes > 1)) {
      fail(fmt::format("{} places something on warps or lanes of a CPU", shown(site)));
    }
    if (program_.cpu && vectors > 1) fail(fmt::format("{} has two vector axes", shown(site)));
    if (warps > program_.warps) {
      fail(fmt::format("{} needs {} warps of {}", shown(site), warps, program_.warps));
    }
    if (lanes > 32) fail(fmt::format("{} needs {} lanes of 32", shown(site), lanes));
  }

  // Reads.
  void check_read(const ReadSite& read) {
    const Site& site = structure_.sites[static_cast<size_t>(read.site)];
    const Scalar& r = *read.read;
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(r.symbol)];
    if (r.type != symbol.type)
      fail(fmt::format("{} reads {} as another type", shown(site), symbol.name));
    if (r.indices.size() != rank_of(r.symbol)) {
      return fail(fmt::format("{} names {} of {} coordinates of {}", shown(site), r.indices.size(),
                              rank_of(r.symbol), symbol.name));
    }
    if (symbol.kind == TileSymbol::Kind::kOutput) {
      return fail(fmt::format("{} reads the output {}", shown(site), symbol.name));
    }
    if (symbol.kind == TileSymbol::Kind::kInput) return check_inside(read, site);
    check_order(read, site);
    if (error_) return;
    check_tails(read, site);
    const ReadRelation relation = relate_read(structure_, read);
    if (relation.reach == Reach::kSeq || relation.reach == Reach::kNowhere) {
      return fail(fmt::format("{} reads {}: {}", shown(site), shown(r), relation.why));
    }
    for (const TileLoop* loop : relation.lost) {
      fail(fmt::format("{} reads {} behind {}, whose iterations overwrite it", shown(site),
                       shown(r), loop_name(program_, *loop)));
    }
  }

  /// Around a value there are zeros where a loop of several stages makes it ahead, nothing else.
  void check_fills(const ScopeAnalysis& scopes) {
    for (const ReadSite& read : structure_.reads) {
      const Scalar& r = *read.read;
      const bool value = kind(r.symbol) != TileSymbol::Kind::kInput;
      if (!r.fill || !value) continue;
      const bool zero = r.fill->kind == Scalar::Kind::kConstant &&
                        (is_float(r.type) ? r.fill->value.f == 0 : r.fill->value.i == 0);
      const Site& site = structure_.sites[static_cast<size_t>(read.site)];
      if (!scopes.symbols[static_cast<size_t>(r.symbol)].staged) {
        fail(
            fmt::format("{} fills around {}, which is neither a parameter nor made ahead by a "
                        "loop of several stages",
                        shown(site), name(r.symbol)));
      } else if (!zero) {
        fail(fmt::format("{} fills around {}, which is made ahead, with something else than 0",
                         shown(site), name(r.symbol)));
      }
    }
  }

  /// Made before it is read, on every way there; current and next values of a carry where they
  /// exist.
  void check_order(const ReadSite& read, const Site& site) {
    const Scalar& r = *read.read;
    const size_t id = static_cast<size_t>(r.symbol);
    const int32_t definition = structure_.definition[id];
    const Site& maker = structure_.sites[static_cast<size_t>(definition)];
    if (maker.kind == Site::Kind::kStatement) {
      if (r.next)
        return fail(fmt::format("{} reads a next value of {}", shown(site), name(r.symbol)));
      if (definition >= read.site) {
        return fail(fmt::format("{} reads {} before it is made", shown(site), name(r.symbol)));
      }
      return check_guards(maker, site, r.symbol);
    }
    const bool inside =
        std::find(site.loops.begin(), site.loops.end(), maker.loop) != site.loops.end();
    if (definition >= read.site ||
        (!inside && site.kind == Site::Kind::kCarry && site.loop == maker.loop)) {
      return fail(fmt::format("{} reads {} before its loop", shown(site), name(r.symbol)));
    }
    check_guards(maker, site, r.symbol);
    if (!r.next) return;
    bool updated = false;
    for (const int32_t update : structure_.updates[id]) updated = updated || update < read.site;
    if (!inside || !updated) {
      fail(fmt::format("{} reads {}' before it is assigned", shown(site), name(r.symbol)));
    }
  }

  /// Beyond the tail of a loop nothing is made: a read around which nothing fills, by another index
  /// than the loop's own, ends before it.
  void check_tails(const ReadSite& read, const Site& site) {
    const Scalar& r = *read.read;
    const Site& maker =
        structure_.sites[static_cast<size_t>(structure_.definition[static_cast<size_t>(r.symbol)])];
    if (maker.kind != Site::Kind::kStatement || r.fill || !read.guards.empty()) return;
    std::vector<Constraint> constraints;
    for (const TileLoop* loop : site.loops) {
      for (const TileLoop::Dim& dim : loop->dims) add_loop_bounds(dim, &constraints);
    }
    const IndexBounds bounds(structure_, std::move(constraints));
    for (const TileRef& target : maker.statement->targets) {
      if (target.symbol != r.symbol) continue;
      for (size_t a = 0; a < target.indices.size(); ++a) {
        const TileLoop::Dim* dim = tail_along(target.indices[a], site);
        AffineForm form;
        if (dim == nullptr || uses_var(r.indices[a], dim->offset) ||
            !as_affine(r.indices[a], &form))
          continue;
        const int64_t begin = dim->begin.constant(), end = dim->end.constant();
        const int64_t last = begin + (end - begin) / dim->step * dim->step;
        const IndexExpr in_tail = substitute(r.indices[a], [&](int id) {
          return id == dim->origin ? IndexExpr(last) : IndexExpr::var(id);
        });
        const int64_t reach = std::min(bounds.of(r.indices[a]).hi, bounds.of(in_tail).hi);
        if (reach < end || reach >= kUnbounded.hi / 2) continue;
        return fail(fmt::format(
            "{} reads {} up to {} along coordinate {}, where {} ends at {}", shown(site), shown(r),
            reach, a, loop_name(program_, *structure_.dim_of.at(dim->origin).first), end));
      }
    }
  }

  /// The tiled loop around the reader whose own index the coordinate is, where it leaves a tail.
  const TileLoop::Dim* tail_along(const IndexExpr& made, const Site& reader) const {
    for (const TileLoop* loop : reader.loops) {
      for (const TileLoop::Dim& dim : loop->dims) {
        const bool own = dim.offset >= 0 && uses_var(made, dim.offset) &&
                         simplify(made - program_.index_of(dim), structure_.range()).is_const(0);
        if (!own || !dim.begin.is_const() || !dim.end.is_const()) continue;
        if ((dim.end.constant() - dim.begin.constant()) % dim.step != 0) return &dim;
      }
    }
    return nullptr;
  }

  void check_guards(const Site& maker, const Site& reader, TileSymbolId id) {
    const size_t n = maker.guards.size();
    const bool within = reader.guards.size() >= n &&
                        std::equal(maker.guards.begin(), maker.guards.end(), reader.guards.begin());
    if (!within) {
      fail(fmt::format("{} reads {}, which is made under a condition only", shown(reader),
                       name(id)));
    }
  }

  /// begin <= index < end, term by term of the max and min that windows at a border have. A bound
  /// that is constant as a whole is in the variables' ranges.
  void add_loop_bounds(const TileLoop::Dim& dim, std::vector<Constraint>* constraints) const {
    const IndexExpr index = program_.index_of(dim);
    const auto add = [&](const auto& self, const IndexExpr& bound, IndexOp op) -> void {
      if (bound.op() == op) {
        self(self, bound.lhs(), op);
        self(self, bound.rhs(), op);
        return;
      }
      const Interval range =
          op == IndexOp::kMax ? Interval{0, kUnbounded.hi} : Interval{kUnbounded.lo, -1};
      constraints->push_back({index - bound, range});
      if (auto affine = without_quotient(index, bound, op == IndexOp::kMax))
        constraints->push_back(std::move(*affine));
    };
    if (!dim.begin.is_const()) add(add, dim.begin, IndexOp::kMax);
    if (!dim.end.is_const()) add(add, dim.end, IndexOp::kMin);
  }

  /// A parameter's element lies within it, where bounds decide that.
  void check_inside(const ReadSite& read, const Site& site) {
    const Scalar& r = *read.read;
    if (r.next)
      return fail(fmt::format("{} reads a next value of {}", shown(site), name(r.symbol)));
    if (r.fill) return;
    std::vector<Constraint> constraints = constraints_of(read.guards);
    for (const TileLoop* loop : site.loops) {
      for (const TileLoop::Dim& dim : loop->dims) {
        const bool constant = dim.begin.is_const() && dim.end.is_const();
        if (constant && dim.end.constant() <= dim.begin.constant()) return;  // it never happens
        add_loop_bounds(dim, &constraints);
      }
    }
    const TileSymbol& symbol = program_.symbols[static_cast<size_t>(r.symbol)];
    const IndexBounds bounds(structure_, std::move(constraints));
    for (size_t a = 0; a < r.indices.size(); ++a) {
      const Coordinate c = coordinate_of(r.indices[a], bounds, [](TileVarId) { return false; });
      if (c.dynamic || c.inner.empty()) continue;
      const Interval extent = range_of(symbol.shape[a], structure_.range());
      const bool exact = read.guards.empty() && c.inner.hi < kUnbounded.hi / 2;
      AffineForm form;
      const bool affine = as_affine(r.indices[a], &form);
      const bool beyond = extent.hi < kUnbounded.hi && c.inner.hi >= extent.hi;
      if ((exact && affine && (c.inner.lo < 0 || beyond)) || c.inner.hi < 0 ||
          c.inner.lo >= extent.hi) {
        return fail(fmt::format("{} reads {} at [{}, {}] along coordinate {} of extent {}",
                                shown(site), shown(r), c.inner.lo, c.inner.hi, a, extent.hi));
      }
    }
  }

  const TileProgram& program_;
  const ScopeAnalysis* known_;
  TileStructure structure_;
  std::optional<TilePrinter> printer_;
  std::set<TileVarId> loop_vars_;
  std::map<TileVarId, double> origin_magnitude_;
  std::optional<Error> error_;
};

}  // namespace

Status verify_tile_program(const TileProgram& program) { return Verifier(program).run(); }

Status verify_tile_program(const TileProgram& program, const ScopeAnalysis& scopes) {
  return Verifier(program, &scopes).run();
}

}  // namespace weft
