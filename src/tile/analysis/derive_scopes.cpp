#include "tile/scope_analysis.h"

#include <algorithm>
#include <bit>

#include "fmt/format.h"
#include "tile/analysis/cluster_blocks.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/analysis/executions.h"
#include "tile/analysis/scope_derivation.h"
#include "tile/padded_read.h"
#include "tile/places.h"
#include "tile/text/tile_printer.h"

namespace weft {
namespace {

bool fully_unrolled(const TileStructure& structure, const TileLoop& loop) {
  for (const TileLoop::Dim& dim : loop.dims) {
    if (dim.unroll == 0) continue;
    const Interval r = structure.ranges[static_cast<size_t>(dim.origin)];
    if ((r.hi - r.lo) / dim.step + 1 > dim.unroll) return false;
  }
  return true;
}

/// Rule 1a and 1c: whether the reader's elements lie with the threads that made them.
class PlaceComparison {
 public:
  PlaceComparison(const TileProgram& program, const Place& made, const Place& read)
      : program_(program), made_(made), read_(read) {}

  /// kRegister, kWarp or kBlock; `reason` says why it is not the first.
  Scope compare(const std::vector<IndexExpr>& made, const std::vector<IndexExpr>& read,
                const RangeOf& range, std::string* reason) {
    for (size_t a = 0; a < made.size() && a < read.size(); ++a) {
      coordinate(made[a], read[a], range);
    }
    if (program_.cpu) {
      if (lanes_ && registers_) return Scope::kRegister;
      *reason = lanes_ ? "in other registers" : "on other lanes";
      return Scope::kBlock;
    }
    if (picked_) {
      *reason = warps_ ? "in registers that the reader's threads pick" : "on other warps";
      return Scope::kBlock;
    }
    if (warps_ && lanes_) return Scope::kRegister;
    if (warps_ && registers_) {
      *reason = "by shuffle";
      return Scope::kWarp;
    }
    *reason = warps_ ? "on other lanes and registers" : "on other warps";
    return Scope::kBlock;
  }

 private:
  void coordinate(const IndexExpr& made, const IndexExpr& read, const RangeOf& range) {
    const TileVarId v = axis_of(program_, made);
    if (v == -1) return;  // one element along this coordinate: the reader has it
    if (v == -2) return differ({{PlaceLevel::kWarp, 2, 1, 1}, {PlaceLevel::kLane, 2, 1, 1}});
    const std::vector<PlacedDigit> own = placed_digits(made_, v);
    const TileVarId u = axis_of(program_, read);
    const bool aligned =
        u >= 0 &&
        (read == made ||
         simplify((read - IndexExpr::var(u)) - (made - IndexExpr::var(v)), range).is_const(0));
    if (!program_.cpu && u >= 0) find_picked(own, placed_digits(read_, u), aligned);
    if (aligned) return compare_digits(own, placed_digits(read_, u));
    if (u == -1) {
      // A fixed element: registers can name it, threads would have to send it.
      for (const PlacedDigit& digit : own) {
        if (digit.level != PlaceLevel::kReg) differ({digit});
      }
      return;
    }
    // Another order along this axis: whatever it is laid over is not where the reader has it.
    differ(own);
  }

  static bool is_thread_level(const PlacedDigit& d) {
    return d.level == PlaceLevel::kWarp || d.level == PlaceLevel::kLane;
  }

  /// Registers have no dynamic index: threads that differ in an element must not find it in
  /// registers that differ.
  void find_picked(const std::vector<PlacedDigit>& own, const std::vector<PlacedDigit>& reader,
                   bool aligned) {
    for (const PlacedDigit& r : reader) {
      if (!is_thread_level(r) || std::find(own.begin(), own.end(), r) != own.end()) continue;
      picked_ |= std::any_of(own.begin(), own.end(), [&](const PlacedDigit& o) {
        const bool overlap = o.divisor < r.divisor * r.extent && r.divisor < o.divisor * o.extent;
        return !is_thread_level(o) && (overlap || !aligned);
      });
    }
  }

  void compare_digits(const std::vector<PlacedDigit>& own, const std::vector<PlacedDigit>& reader) {
    if (program_.cpu) {
      // Registers and lanes are named at compile time, so both must agree in full.
      const auto same = [](const PlacedDigit& a, const PlacedDigit& b) {
        return a.level == b.level && a.extent == b.extent && a.divisor == b.divisor;
      };
      if (std::equal(own.begin(), own.end(), reader.begin(), reader.end(), same)) return;
      const auto vec = [](const std::vector<PlacedDigit>& digits) {
        std::vector<PlacedDigit> out;
        for (const PlacedDigit& d : digits) {
          if (d.level == PlaceLevel::kVec) out.push_back(d);
        }
        return out;
      };
      (vec(own) == vec(reader) ? registers_ : lanes_) = false;
      return;
    }
    for (const PlacedDigit& digit : own) {
      const bool found = std::any_of(reader.begin(), reader.end(), [&](const PlacedDigit& r) {
        // Registers and vector elements of one thread are alike.
        return is_thread_level(digit) ? r == digit
                                      : r.level >= PlaceLevel::kReg && r.extent == digit.extent &&
                                            r.divisor == digit.divisor;
      });
      if (!found) differ({digit});
    }
  }

  void differ(const std::vector<PlacedDigit>& digits) {
    for (const PlacedDigit& digit : digits) {
      switch (digit.level) {
        case PlaceLevel::kWarp:
          warps_ = false;
          break;
        case PlaceLevel::kLane:
          lanes_ = false;
          break;
        case PlaceLevel::kReg:
          registers_ = false;
          break;
        case PlaceLevel::kVec:
          (program_.cpu ? lanes_ : registers_) = false;
          break;
      }
    }
  }

  const TileProgram& program_;
  const Place& made_;
  const Place& read_;
  bool warps_ = true, lanes_ = true, registers_ = true;
  bool picked_ = false;  ///< a register's number depends on the reader's thread
};

/// How a reason names its reader: by what the reader makes.
std::string reader_name(const Derivation& d, const Site& site) {
  const auto name = [&](TileSymbolId id) {
    return d.program.symbols[static_cast<size_t>(id)].name;
  };
  switch (site.kind) {
    case Site::Kind::kStatement:
      return name(site.statement->targets[0].symbol);
    case Site::Kind::kCarry:
      return "the first " + name(site.carry->target.symbol);
    case Site::Kind::kCondition:
      break;
  }
  return "a condition";
}

std::string names_of(const TileProgram& program, const std::vector<const TileLoop*>& loops) {
  std::string out;
  for (const TileLoop* loop : loops) {
    out += (out.empty() ? "" : " and ") + loop_name(program, *loop);
  }
  return out;
}

Scope join(SymbolScope& scope, Scope with, std::string reason) {
  if (with > scope.scope) {
    scope.scope = with;
    scope.reason = std::move(reason);
  }
  return with;
}

/// Joins one read and returns what it alone asks for.
Scope join_read(Derivation& d, const ReadSite& read, const ReadRelation& relation) {
  const TileStructure& structure = d.structure;
  const Site& reader = structure.sites[static_cast<size_t>(read.site)];
  SymbolScope& scope = d.out.symbols[static_cast<size_t>(read.read->symbol)];
  const std::string by = "read by " + reader_name(d, reader);
  if (relation.reach == Reach::kGrid || relation.reach == Reach::kCluster) {
    const Scope shared = relation.reach == Reach::kGrid ? Scope::kGrid : Scope::kCluster;
    return join(scope, shared, fmt::format("{}: {} (1d)", by, relation.why));
  }
  if (relation.reach != Reach::kHere) {
    return join(scope, Scope::kBlock, fmt::format("{}: elements known at run time (1b)", by));
  }
  if (relation.from_nest)
    return join(scope, Scope::kBlock, fmt::format("{}: kept for a later nest (1e)", by));
  const auto by_cluster =
      std::ranges::find_if(relation.kept, [](const TileLoop* loop) { return loop->by_cluster; });
  if (by_cluster != relation.kept.end()) {
    return join(scope, Scope::kCluster,
                fmt::format("{}: made by {} (1d)", by, loop_name(d.program, **by_cluster)));
  }
  std::vector<const TileLoop*> looped;
  const auto add = [&](const std::vector<const TileLoop*>& loops) {
    for (const TileLoop* loop : loops) {
      // Unrolled iterations are registers of their own on a GPU; the CPU's loops keep theirs in
      // memory.
      if (d.program.cpu || !fully_unrolled(structure, *loop)) looped.push_back(loop);
    }
  };
  add(relation.kept);
  const bool kept = !looped.empty();
  add(relation.picked);
  if (!looped.empty()) {
    return join(scope, Scope::kBlock,
                fmt::format("{}: {} over {} (1b)", by, kept ? "kept" : "picked",
                            names_of(d.program, looped)));
  }
  if (relation.dynamic) {
    return join(scope, Scope::kBlock, fmt::format("{}: picked at run time (1b)", by));
  }
  const Place& made = d.places.of_site[static_cast<size_t>(relation.producer)];
  const Place wanted = reader_place(structure, d.places, read);
  std::string how;
  const Scope compared = PlaceComparison(d.program, made, wanted)
                             .compare(*relation.made, read.read->indices, structure.range(), &how);
  if (compared == Scope::kRegister) return compared;
  return join(scope, compared, fmt::format("{}: {} ({})", by, how, relation.carried ? "1c" : "1a"));
}

/// Rule 1c on the writing side: the next value lies where the carry does.
void join_updates(Derivation& d, TileSymbolId id) {
  const size_t symbol = static_cast<size_t>(id);
  const int32_t definition = d.structure.definition[symbol];
  if (definition < 0) return;
  const Site& carry = d.structure.sites[static_cast<size_t>(definition)];
  for (const int32_t update : d.structure.updates[symbol]) {
    const Site& site = d.structure.sites[static_cast<size_t>(update)];
    for (const TileRef& target : site.statement->targets) {
      if (target.symbol != id) continue;
      std::string how;
      const Scope scope =
          PlaceComparison(d.program, d.places.of_symbol[symbol],
                          d.places.of_site[static_cast<size_t>(update)])
              .compare(carry.carry->target.indices, target.indices, d.structure.range(), &how);
      if (scope == Scope::kRegister) continue;
      join(d.out.symbols[symbol], std::max(scope, Scope::kBlock),
           fmt::format("its next value is made {} (1c)", how));
    }
    // An update inside a further loop would be made once for each of its iterations.
    const std::vector<const TileLoop*> outer = carry.loops;
    for (size_t i = outer.size() + 1; i < site.loops.size(); ++i) {
      join(d.out.symbols[symbol], Scope::kBlock,
           fmt::format("its next value is made in {} (1b)", loop_name(d.program, *site.loops[i])));
    }
  }
}

}  // namespace

int64_t carry_copies(const Derivation& d, TileSymbolId id) {
  const size_t symbol = static_cast<size_t>(id);
  const SymbolScope& scope = d.out.symbols[symbol];
  if (scope.scope < Scope::kBlock) return 1;
  bool own = true, before = true;
  for (const ReadSite& read : d.structure.reads) {
    if (read.read->symbol != id || read.read->next) continue;
    const Site& reader = d.structure.sites[static_cast<size_t>(read.site)];
    const Site& carry = d.structure.sites[static_cast<size_t>(d.structure.definition[symbol])];
    if (std::find(reader.loops.begin(), reader.loops.end(), carry.loop) == reader.loops.end()) {
      continue;
    }
    bool updates = false;
    for (const int32_t update : d.structure.updates[symbol]) {
      const Site& site = d.structure.sites[static_cast<size_t>(update)];
      const bool same = std::ranges::any_of(site.statement->targets, [&](const TileRef& target) {
        return target.symbol == id && target.indices == read.read->indices;
      });
      // In a loop around both, an iteration may read what an earlier one has updated.
      const size_t shared = TileStructure::common(reader.loops, site.loops).size();
      const bool repeated = shared > carry.loops.size() + 1;
      before = before && read.site < update && (same || !repeated);
      updates = updates || (read.site == update && same);
    }
    own = own && updates;
  }
  if (own) return 1;
  // Within a block the reads end before the update begins: a second barrier on a GPU, order alone
  // on a CPU.
  return before && scope.scope == Scope::kBlock ? 1 : 2;
}

bool is_staged_load(const Derivation& d, const Site& site) {
  if (site.kind != Site::Kind::kStatement || site.loops.empty()) return false;
  const TileStatement& s = *site.statement;
  const TileLoop& loop = *site.loops.back();
  if (s.combiner != TileCombiner::kNone || loop.stages < 2 || loop.dims.size() != 1 ||
      !site.guards.empty()) {
    return false;
  }
  bool loads = false, only = true;
  visit(s.value, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kRead) return;
    loads = true;
    only &= d.program.symbols[static_cast<size_t>(n.symbol)].kind == TileSymbol::Kind::kInput;
  });
  // On a CPU a load is a view.
  const bool plain = s.value->kind == Scalar::Kind::kRead;
  return loads && only && (plain || (!d.program.cpu && s.demand == Scope::kBlock));
}

namespace {

constexpr int64_t kRowBytes = 16;    ///< of one row that a matrix unit's load takes
constexpr int kMostSwizzleBits = 3;  ///< eight rows of 16 bytes are all banks

/// Whether the read takes whole rows: along the depth, or across it where elements have 16 bits and
/// the load transposes.
bool reads_rows(const Derivation& d, const ReadSite& read) {
  const Site& site = d.structure.sites[static_cast<size_t>(read.site)];
  if (site.kind != Site::Kind::kStatement || read.read->indices.empty()) return false;
  const auto product = unit_product(d.program, *site.statement);
  if (!product || (read.read != product->a && read.read != product->b)) return false;
  const TileVarId other = read.read == product->a ? product->m : product->n;
  const TileVarId last = axis_of(d.program, read.read->indices.back());
  bool plain = true;
  for (const IndexExpr& e : read.read->indices) {
    const TileVarId v = axis_of(d.program, e);
    plain &= v == -1 || v == product->k || v == other;
  }
  return plain && (last == product->k || (last == other && byte_size(read.read->type) == 2));
}

/// Whether the buffer holds whole steps of the unit along the depth: two rows of 16 bytes.
bool holds_whole_steps(const Derivation& d, const ReadSite& read, const SymbolScope& scope) {
  const auto product =
      unit_product(d.program, *d.structure.sites[static_cast<size_t>(read.site)].statement);
  const int64_t step = 2 * kRowBytes / byte_size(read.read->type);
  for (size_t c = 0; c < read.read->indices.size(); ++c) {
    if (axis_of(d.program, read.read->indices[c]) != product->k) continue;
    if (scope.extents[c] % step != 0) return false;
  }
  return true;
}

/// Panels for what warp groups alone read: rows of whole panels, eight at a time, in one plane.
std::optional<Swizzle> panels_of(const SymbolScope& scope) {
  const size_t rank = scope.extents.size();
  const bool plane = rank >= 2 && std::all_of(scope.extents.begin(), scope.extents.end() - 2,
                                              [](int64_t e) { return e == 1; });
  if (!plane || scope.extents.back() % kPanelColumns != 0 || scope.extents[rank - 2] % 8 != 0)
    return std::nullopt;
  return Swizzle{3, 3, 3, kPanelColumns};
}

bool reads_by_group(const Derivation& d, const ReadSite& read) {
  const Site& site = d.structure.sites[static_cast<size_t>(read.site)];
  if (site.kind != Site::Kind::kStatement) return false;
  const auto product = unit_product(d.program, *site.statement);
  return product && product->by_group;
}

/// Requires: derive_swizzles. Whether a warp group can multiply what the statement names: its warps
/// stand below each other with 16 rows each, and both operands lie in panels.
Status check_group_product(const Derivation& d, const Site& site) {
  constexpr int64_t kTileColumns = 8;
  const TileStatement& s = *site.statement;
  const auto refuse = [&](const std::string& why) {
    return invalid_input(fmt::format("tile program {}: {} by {}: {}", d.program.name,
                                     reader_name(d, site), s.unit, why));
  };
  const auto product = unit_product(d.program, s);
  if (!product || byte_size(product->a->type) != 2 || product->a->type != product->b->type)
    return refuse("is no product of 16-bit floats");
  if (product->warps_n != 1 || product->tiles_m != 1 || product->warps_m % kGroupWarps != 0 ||
      product->warps_m > d.program.warps || d.program.warps % kGroupWarps != 0 ||
      product->tiles_n * kTileColumns > kGroupColumns)
    return refuse("wants groups of 4 warps with 16 rows each and at most 256 columns");
  for (const Scalar* operand : {product->a, product->b}) {
    const SymbolScope& scope = d.out.symbols[static_cast<size_t>(operand->symbol)];
    if (!scope.swizzle || scope.swizzle->panel_columns == 0)
      return refuse("reads " + d.program.symbols[static_cast<size_t>(operand->symbol)].name +
                    ", which does not lie in panels of block memory");
  }
  return {};
}

}  // namespace

void derive_swizzles(Derivation& d) {
  if (d.program.cpu) return;
  for (size_t i = 0; i < d.program.symbols.size(); ++i) {
    SymbolScope& scope = d.out.symbols[i];
    const TileSymbol& symbol = d.program.symbols[i];
    if (symbol.kind != TileSymbol::Kind::kValue || scope.scope != Scope::kBlock) continue;
    const int64_t row = kRowBytes / byte_size(symbol.type);
    if (row != 8 && row != 4) continue;
    const auto reads = d.structure.reads_of(static_cast<TileSymbolId>(i));
    const bool units = !reads.empty() && std::all_of(reads.begin(), reads.end(),
                                                     [&](auto* r) { return reads_rows(d, *r); });
    if (!units || scope.extents.empty() || scope.extents.back() % row != 0) continue;
    // A unit takes 16 rows or two rows of 16 bytes at a time.
    const bool whole = std::all_of(scope.extents.begin(), scope.extents.end(),
                                   [&](int64_t e) { return e == 1 || e % 8 == 0; }) &&
                       std::all_of(reads.begin(), reads.end(),
                                   [&](auto* r) { return holds_whole_steps(d, *r, scope); });
    if (!whole) continue;
    if (reads_by_group(d, *reads.front())) {
      const bool only =
          std::all_of(reads.begin(), reads.end(), [&](auto* r) { return reads_by_group(d, *r); });
      if (only && row == 8) scope.swizzle = panels_of(scope);
      continue;
    }
    const int64_t chunks = scope.extents.back() / row;
    scope.swizzle.emplace();
    // Rows of an odd number of chunks meet all banks as they are.
    const int digits = std::countr_zero(static_cast<uint64_t>(chunks));
    if (digits == 0) continue;
    scope.swizzle = {std::min(digits, kMostSwizzleBits), row == 8 ? 3 : 2,
                     std::max(digits, kMostSwizzleBits)};
  }
}

/// Whether a window's elements are copied as they lie, zeros around them: by accesses of 4 bytes.
bool copies_padded(const TileProgram& program, const TileStatement& s) {
  constexpr int64_t kNarrowestCopy = 4;
  const DType type = program.symbols[static_cast<size_t>(s.targets[0].symbol)].type;
  return byte_size(type) * level_extent(s.place, PlaceLevel::kVec) >= kNarrowestCopy &&
         padded_read(s.value).has_value();
}

void derive_symbol_scopes(Derivation& d) {
  const TileProgram& program = d.program;
  d.out.symbols.assign(program.symbols.size(), {});
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    d.out.symbols[i].place = d.places.of_symbol[i];
  }
  for (size_t i = 0; i < d.structure.reads.size(); ++i) {
    d.read_scopes.push_back(Scope::kGrid);
    if (!d.relations[i].has_value()) continue;
    d.read_scopes.back() = join_read(d, d.structure.reads[i], *d.relations[i]);
  }
  for (const Site& site : d.structure.sites) {
    if (site.kind != Site::Kind::kStatement || !site.statement->demand.has_value()) continue;
    for (const TileRef& target : site.statement->targets) {
      const TileSymbol::Kind kind = program.symbols[static_cast<size_t>(target.symbol)].kind;
      if (kind == TileSymbol::Kind::kInput || kind == TileSymbol::Kind::kOutput) continue;
      SymbolScope& scope = d.out.symbols[static_cast<size_t>(target.symbol)];
      if (*site.statement->demand <= scope.scope) continue;
      join(scope, *site.statement->demand, "demanded");
    }
  }
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const TileSymbolId id = static_cast<TileSymbolId>(i);
    SymbolScope& scope = d.out.symbols[i];
    const int32_t definition = d.structure.definition[i];
    if (definition < 0) continue;
    if (program.symbols[i].kind == TileSymbol::Kind::kCarry) {
      join_updates(d, id);
      scope.copies = carry_copies(d, id);
      continue;
    }
    const Site& site = d.structure.sites[static_cast<size_t>(definition)];
    if (scope.scope == Scope::kBlock && is_staged_load(d, site)) {
      // One buffer per stage; what is computed on the way is one iteration ahead, in registers.
      const bool copied = site.statement->value->kind == Scalar::Kind::kRead ||
                          copies_padded(program, *site.statement);
      scope.copies = copied ? site.loops.back()->stages : 2;
      scope.staged = true;
    }
  }
}

Result<ScopeAnalysis> derive_scopes(const TileProgram& program) {
  Derivation d{program, structure_of(program), {}, {}, {}, {}, {}};
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const TileSymbol& symbol = program.symbols[i];
    const bool needs =
        symbol.kind == TileSymbol::Kind::kValue || symbol.kind == TileSymbol::Kind::kCarry;
    if (needs && d.structure.definition[i] < 0 &&
        !d.structure.reads_of(static_cast<TileSymbolId>(i)).empty()) {
      return invalid_input(
          fmt::format("tile program {}: {} is read and never made", program.name, symbol.name));
    }
  }
  d.places = resolve_places(d.structure);
  for (const ReadSite& read : d.structure.reads) {
    const size_t symbol = static_cast<size_t>(read.read->symbol);
    if (d.structure.definition[symbol] < 0) {
      d.relations.emplace_back();
      continue;
    }
    d.relations.emplace_back(relate_read(d.structure, read));
    const ReadRelation& relation = *d.relations.back();
    if (relation.reach == Reach::kSeq || relation.reach == Reach::kNowhere) {
      return invalid_input(fmt::format(
          "tile program {}: {} reads {}: {}", program.name,
          reader_name(d, d.structure.sites[static_cast<size_t>(read.site)]),
          TilePrinter(program).scalar(std::make_shared<const Scalar>(*read.read), std::nullopt),
          relation.why));
    }
  }
  derive_symbol_scopes(d);
  WEFT_ASSIGN_OR_RETURN(d.out.cluster_blocks, cluster_blocks(program));
  WEFT_RETURN_IF_ERROR(derive_grid_barriers(d));
  const auto kept = kept_statements(d.structure, d.out);
  for (const auto& [statement, depth] : kept) {
    for (const TileRef& target : statement->targets) d.kept.insert(target.symbol);
  }
  for (const Site& site : d.structure.sites) {
    if (site.kind != Site::Kind::kStatement || site.loops.empty()) continue;
    const auto found = kept.find(site.statement);
    if (!site.loops.back()->by_cluster || (found != kept.end() && found->second == 0)) continue;
    return invalid_input(fmt::format("tile program {}: {} is made by {} and changes with the grid",
                                     program.name, reader_name(d, site),
                                     loop_name(program, *site.loops.back())));
  }
  WEFT_RETURN_IF_ERROR(derive_buffers(d));
  derive_swizzles(d);
  for (const Site& site : d.structure.sites) {
    const bool by_group = site.kind == Site::Kind::kStatement && site.statement->unit == kGroupUnit;
    if (by_group) WEFT_RETURN_IF_ERROR(check_group_product(d, site));
  }
  pad_rows(d);
  WEFT_RETURN_IF_ERROR(place_buffers(d));
  WEFT_RETURN_IF_ERROR(derive_block_barriers(d));
  d.out.statement_places.clear();
  for (size_t i = 0; i < d.structure.sites.size(); ++i) {
    if (d.structure.sites[i].kind == Site::Kind::kStatement) {
      d.out.statement_places.push_back(d.places.of_site[i]);
    }
  }
  return std::move(d.out);
}

}  // namespace weft
