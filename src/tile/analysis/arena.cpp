#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>

#include "fmt/format.h"
#include "support/rounding.h"
#include "tile/analysis/loads_ahead.h"
#include "tile/analysis/scope_derivation.h"
#include "tile/analysis/view_parts.h"

namespace weft {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPanelAlignment =
    1024;  ///< of the pattern in which chunks of panels are exchanged
constexpr int64_t kLargestBuffer = int64_t{1} << 40;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Sites that make or read a symbol.
std::vector<int32_t> accesses(const Derivation& d, TileSymbolId symbol) {
  std::vector<int32_t> out = d.structure.updates[static_cast<size_t>(symbol)];
  if (d.structure.definition[static_cast<size_t>(symbol)] >= 0) {
    out.push_back(d.structure.definition[static_cast<size_t>(symbol)]);
  }
  for (const ReadSite& read : d.structure.reads) {
    if (read.read->symbol == symbol) out.push_back(read.site);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

std::vector<const TileLoop*> lifetime_loops(const Derivation& d, TileSymbolId symbol) {
  const int32_t definition = d.structure.definition[static_cast<size_t>(symbol)];
  const Site& maker = d.structure.sites[static_cast<size_t>(definition)];
  std::vector<const TileLoop*> loops = maker.loops;
  const auto nests = static_cast<std::ptrdiff_t>(std::min(nest_of(maker).size(), loops.size()));
  for (const int32_t site : accesses(d, symbol)) {
    const Site& other = d.structure.sites[static_cast<size_t>(site)];
    const bool kept = d.out.symbols[static_cast<size_t>(symbol)].scope == Scope::kBlock &&
                      !d.program.cpu && nest_of(other) != nest_of(maker);
    // The loop over blocks of the nest that made it stands for that of a later nest.
    loops = kept ? std::vector<const TileLoop*>(maker.loops.begin(), maker.loops.begin() + nests)
                 : TileStructure::common(loops, other.loops);
  }
  return loops;
}

SiteRange live_range(const Derivation& d, TileSymbolId symbol) {
  const std::vector<int32_t> sites = accesses(d, symbol);
  if (sites.empty()) return {0, -1};
  SiteRange range{sites.front(), sites.back()};
  const int32_t definition = d.structure.definition[static_cast<size_t>(symbol)];
  if (definition >= 0) {
    const Site& site = d.structure.sites[static_cast<size_t>(definition)];
    if (site.kind == Site::Kind::kCarry) {
      range.last = std::max(range.last, d.structure.loop_sites.at(site.loop).second - 1);
    }
    if (is_staged_load(d, site)) {
      const auto [first, end] = d.structure.loop_sites.at(site.loops.back());
      range = {std::min(range.first, first), std::max(range.last, end - 1)};
      // Copied in front of its nest, where what later nests find on chip is alive.
      if (is_loaded_ahead(d.program, *site.loops.back(), *site.statement)) {
        const auto nest = std::ranges::find(site.loops, TileLoop::Kind::kGrid, &TileLoop::kind);
        if (nest != site.loops.end())
          range.first = std::min(range.first, d.structure.loop_sites.at(*nest).first);
      }
    }
  }
  if (d.kept.count(symbol) != 0) {
    const Site& site = d.structure.sites[static_cast<size_t>(definition)];
    const auto [first, end] = d.structure.loop_sites.at(site.loops.front());
    return {first, end - 1};
  }
  const std::vector<const TileLoop*> around = lifetime_loops(d, symbol);
  for (const int32_t number : sites) {
    const Site& site = d.structure.sites[static_cast<size_t>(number)];
    // All steps of a recurrence read what is made before it.
    const bool steps = !site.loops.empty() && is_recurrence(*site.loops.front()) &&
                       (around.empty() || around.front() != site.loops.front());
    if (steps && !around.empty()) {
      range.last = std::max(range.last, d.structure.loop_sites.at(site.loops.front()).second - 1);
      continue;
    }
    if (site.loops.size() <= around.size()) continue;
    // The outermost loop around this access that is not around all of them repeats it.
    const auto [first, end] = d.structure.loop_sites.at(site.loops[around.size()]);
    range.first = std::min(range.first, first);
    range.last = std::max(range.last, end - 1);
  }
  return range;
}

/// Rows of a core's scratch are up to an eighth longer than what they hold, so that lengths near
/// each other have one layout, and with it one code. Rows of a register tile stay as they are.
int64_t row_length(int64_t extent) {
  constexpr int64_t kVector = 8, kLongestTile = 64;
  if (extent <= kVector) return extent;
  if (extent <= kLongestTile) return round_up(extent, kVector);
  return round_up(extent, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(extent))) / 8);
}

Status fill_buffer(const Derivation& d, TileSymbolId symbol,
                   const std::vector<const TileLoop*>& around, SymbolScope* scope) {
  const TileSymbol& info = d.program.symbols[static_cast<size_t>(symbol)];
  const int32_t definition = d.structure.definition[static_cast<size_t>(symbol)];
  const Site& site = d.structure.sites[static_cast<size_t>(definition)];
  const std::vector<IndexExpr>* target = nullptr;
  if (site.kind == Site::Kind::kCarry) {
    target = &site.carry->target.indices;
  } else {
    for (const TileRef& t : site.statement->targets) {
      if (t.symbol == symbol) target = &t.indices;
    }
  }
  const auto fixed = [&](TileVarId var) {
    const auto found = d.structure.dim_of.find(var);
    return found != d.structure.dim_of.end() &&
           std::find(around.begin(), around.end(), found->second.first) != around.end();
  };
  scope->extents.clear();
  scope->base.clear();
  const IndexBounds bounds(d.structure);
  for (const IndexExpr& e : *target) {
    const Coordinate c = coordinate_of(e, bounds, fixed);
    const int64_t extent = std::max<int64_t>(c.inner.hi - c.inner.lo + 1, 1);
    if (c.inner.hi >= kLargestBuffer || c.inner.lo <= -kLargestBuffer) {
      return invalid_input(fmt::format(
          "tile program {}: {} is kept in memory and a size that it depends on is not bound",
          d.program.name, info.name));
    }
    scope->extents.push_back(extent);
    scope->base.push_back(simplify(c.outer + c.inner.lo, d.structure.range()));
  }
  if (d.program.cpu && scope->scope == Scope::kBlock && !scope->extents.empty())
    scope->extents.back() = row_length(scope->extents.back());
  const auto bytes = checked_byte_size(info.type, scope->extents);
  if (!bytes.has_value() || *bytes > kLargestBuffer) {
    return invalid_input(
        fmt::format("tile program {}: the buffer of {} is too large", d.program.name, info.name));
  }
  scope->bytes = *bytes * scope->copies;
  for (const SymbolScope::Part& part : scope->parts) scope->bytes *= part.trips;
  return {};
}

Status derive_buffers(Derivation& d) {
  for (size_t i = 0; i < d.program.symbols.size(); ++i) {
    SymbolScope& scope = d.out.symbols[i];
    if (d.structure.definition[i] < 0 || scope.scope < Scope::kBlock) continue;
    const TileSymbolId id = static_cast<TileSymbolId>(i);
    // What all blocks share has one address for all of their iterations; of what those of a cluster
    // share each has its own part.
    std::vector<const TileLoop*> around =
        scope.scope == Scope::kGrid ? std::vector<const TileLoop*>{} : lifetime_loops(d, id);
    const Site& maker = d.structure.sites[static_cast<size_t>(d.structure.definition[i])];
    if (!maker.loops.empty() && maker.loops.back()->by_cluster) around = maker.loops;
    WEFT_RETURN_IF_ERROR(fill_buffer(d, id, around, &scope));
  }
  return {};
}

namespace {

/// Registers of one thread (32 bits each), or vector registers of a core, that a symbol occupies.
int64_t registers_of(const Derivation& d, TileSymbolId symbol) {
  const size_t i = static_cast<size_t>(symbol);
  const Site& site = d.structure.sites[static_cast<size_t>(d.structure.definition[i])];
  std::set<TileVarId> vars;
  if (site.kind == Site::Kind::kCarry) {
    for (const IndexExpr& e : site.carry->target.indices) add_box_variables(d.program, e, &vars);
  } else {
    for (const TileRef& t : site.statement->targets) {
      for (const IndexExpr& e : t.indices) add_box_variables(d.program, e, &vars);
    }
  }
  int64_t count = d.out.symbols[i].copies;
  for (const Place::Axis& axis : d.places.of_symbol[i].axes) {
    if (vars.count(axis.var) == 0) continue;
    for (const Place::Digit& digit : axis.digits) {
      const bool vec = digit.level == PlaceLevel::kVec;
      if (digit.level == PlaceLevel::kReg || (vec && !d.program.cpu)) count *= digit.extent;
      if (count > (int64_t{1} << 32)) return int64_t{1} << 32;
    }
  }
  if (d.program.cpu) return count;
  return (count * byte_size(d.program.symbols[i].type) + 3) / 4;
}

/// The sites, between the last read of a carry and the first update, at which nothing of it needs a
/// register.
SiteRange replaced_range(const Derivation& d, TileSymbolId symbol) {
  const size_t i = static_cast<size_t>(symbol);
  const Site& carry = d.structure.sites[static_cast<size_t>(d.structure.definition[i])];
  const std::vector<int32_t>& updates = d.structure.updates[i];
  if (carry.kind != Site::Kind::kCarry || updates.size() != 1) return {0, -1};
  const Site& update = d.structure.sites[static_cast<size_t>(updates[0])];
  // An update that may not happen, or not for all elements, needs what was there before.
  if (update.guards != carry.guards || update.loops.size() != carry.loops.size() + 1) {
    return {0, -1};
  }
  SiteRange gap{d.structure.loop_sites.at(carry.loop).first, updates[0] - 1};
  for (const ReadSite& read : d.structure.reads) {
    if (read.read->symbol != symbol || read.read->next) continue;
    const Site& reader = d.structure.sites[static_cast<size_t>(read.site)];
    const size_t depth = update.loops.size();
    if (reader.loops.size() < depth || reader.loops[depth - 1] != carry.loop) continue;
    int32_t last = read.site;
    if (reader.loops.size() > depth) {
      last = d.structure.loop_sites.at(reader.loops[depth]).second - 1;
    }
    gap.first = std::max(gap.first, last + 1);
  }
  return gap;
}

/// Whether a value is made in the registers of a carry: a unit adds it up itself.
bool is_added_to_carry(const Derivation& d, TileSymbolId symbol) {
  const size_t i = static_cast<size_t>(symbol);
  const auto at = static_cast<size_t>(d.structure.definition[i]);
  if (at + 1 >= d.structure.sites.size() || d.structure.reads_of(symbol).size() != 1) return false;
  const Site &product = d.structure.sites[at], &next = d.structure.sites[at + 1];
  const auto is_behind = [&] {
    std::vector<int32_t> path = product.path;
    if (!path.empty()) ++path.back();
    return next.path == path;
  };
  if (product.kind != Site::Kind::kStatement || next.kind != Site::Kind::kStatement ||
      !is_behind() || !adds_to_carry(d.program, *product.statement, *next.statement))
    return false;
  const auto carry = static_cast<size_t>(next.statement->targets[0].symbol);
  return d.out.symbols[carry].scope == Scope::kRegister &&
         lie_alike(d.places.of_site[at + 1], unit_product(d.program, *product.statement)->result());
}

/// The most registers that live at once.
int64_t most_registers(const Derivation& d) {
  const size_t n = d.program.symbols.size();
  std::vector<SiteRange> live(n), gaps(n);
  std::vector<TileSymbolId> in_registers;
  for (size_t i = 0; i < n; ++i) {
    const auto id = static_cast<TileSymbolId>(i);
    if (d.structure.definition[i] < 0) continue;
    live[i] = live_range(d, id);
    gaps[i] = replaced_range(d, id);
    if (d.out.symbols[i].scope < Scope::kBlock && !is_added_to_carry(d, id))
      in_registers.push_back(id);
  }
  int64_t most = 0;
  for (size_t at = 0; at < d.structure.sites.size(); ++at) {
    int64_t registers = 0;
    for (const TileSymbolId id : in_registers) {
      const size_t i = static_cast<size_t>(id);
      const int32_t site = static_cast<int32_t>(at);
      if (gaps[i].first <= site && site <= gaps[i].last) continue;
      // Where a value is made, it takes the registers of what it is made from.
      if (live[i].first < site && site <= live[i].last) registers += registers_of(d, id);
    }
    most = std::max(most, registers);
  }
  return most;
}

/// First offset at which `bytes` do not meet what is alive at the same time.
int64_t first_fit(int64_t bytes, int64_t alignment,
                  const std::vector<std::pair<int64_t, int64_t>>& occupied) {
  std::vector<std::pair<int64_t, int64_t>> sorted = occupied;
  std::sort(sorted.begin(), sorted.end());
  int64_t offset = 0;
  for (const auto& [begin, end] : sorted) {
    if (offset + bytes <= begin) break;
    offset = std::max(offset, round_up(end, alignment));
  }
  return offset;
}

/// Offsets of slots that are placed in an order, each as low as it fits, and where the last ends.
struct Placed {
  std::vector<int64_t> offsets;  ///< by slot
  int64_t bytes = 0;
};

Placed place_in_order(const std::vector<ArenaSlot>& slots, const std::vector<size_t>& order) {
  Placed out{std::vector<int64_t>(slots.size(), 0), 0};
  std::vector<size_t> placed;
  for (const size_t i : order) {
    const ArenaSlot& slot = slots[i];
    std::vector<std::pair<int64_t, int64_t>> occupied;
    for (const size_t o : placed) {
      if (slots[o].live.last < slot.live.first || slot.live.last < slots[o].live.first) continue;
      occupied.emplace_back(out.offsets[o], out.offsets[o] + slots[o].bytes);
    }
    out.offsets[i] = first_fit(slot.bytes, slot.alignment, occupied);
    out.bytes = std::max(out.bytes, out.offsets[i] + slot.bytes);
    placed.push_back(i);
  }
  return out;
}

/// Large slots first, so that small ones fill the gaps. Where that leaves gaps, in the order in
/// which they begin to live, or by how long they do: the first of these that takes fewer bytes.
Placed place_slots(const std::vector<ArenaSlot>& slots) {
  std::vector<size_t> order(slots.size());
  std::iota(order.begin(), order.end(), 0);
  const auto by = [&](const auto& key) {
    std::ranges::sort(order, {}, [&](size_t i) { return std::pair(key(slots[i]), i); });
    return place_in_order(slots, order);
  };
  Placed best = by([](const ArenaSlot& s) { return -s.bytes; });
  const int64_t least = live_at_once(slots);
  const auto consider = [&](const auto& key) {
    if (best.bytes == least) return;
    if (Placed other = by(key); other.bytes < best.bytes) best = std::move(other);
  };
  consider([](const ArenaSlot& s) { return static_cast<int64_t>(s.live.first); });
  consider([](const ArenaSlot& s) { return static_cast<int64_t>(s.live.first - s.live.last); });
  consider([](const ArenaSlot& s) { return -static_cast<int64_t>(s.live.last); });
  return best;
}

}  // namespace

std::vector<ArenaSlot> arena_slots(const Derivation& d) {
  const std::vector<TileSymbolId> sources = in_place_sources(d);
  std::vector<ArenaSlot> slots;
  std::map<TileSymbolId, size_t> slot_of;
  // What is made in the place of a value is made behind it, and has a later number or not.
  const std::function<size_t(TileSymbolId)> add = [&](TileSymbolId id) -> size_t {
    const auto known = slot_of.find(id);
    if (known != slot_of.end()) return known->second;
    const auto i = static_cast<size_t>(id);
    SiteRange live = live_range(d, id);
    // What other blocks read has bytes of its own: to use them again would cost a barrier of the
    // cluster.
    if (d.out.symbols[i].scope == Scope::kCluster)
      live = {0, static_cast<int32_t>(d.structure.sites.size())};
    size_t at = slots.size();
    if (sources[i] >= 0) {
      at = add(sources[i]);
      slots[at].live.last = std::max(slots[at].live.last, live.last);
    } else {
      slots.push_back({{}, live, aligned(d.out.symbols[i].bytes)});
    }
    const auto& swizzle = d.out.symbols[i].swizzle;
    if (swizzle && swizzle->panel_columns > 0) slots[at].alignment = kPanelAlignment;
    slots[at].held.push_back(id);
    slot_of.emplace(id, at);
    return at;
  };
  for (size_t i = 0; i < d.program.symbols.size(); ++i) {
    const Scope scope = d.out.symbols[i].scope;
    if (d.structure.definition[i] >= 0 && (scope == Scope::kBlock || scope == Scope::kCluster))
      add(static_cast<TileSymbolId>(i));
  }
  return slots;
}

int64_t live_at_once(const std::vector<ArenaSlot>& slots) {
  int64_t most = 0;
  for (const ArenaSlot& at : slots) {
    int64_t bytes = 0;
    for (const ArenaSlot& slot : slots) {
      const bool alive = slot.live.first <= at.live.first && at.live.first <= slot.live.last;
      bytes += alive ? slot.bytes : 0;
    }
    most = std::max(most, bytes);
  }
  return most;
}

Status place_buffers(Derivation& d) {
  const size_t n = d.program.symbols.size();
  for (const TileSymbol& symbol : d.program.symbols) {
    if (!symbol.is_workspace) continue;
    d.out.workspace_bytes += aligned(elements_of(symbol).value_or(0) * byte_size(symbol.type));
  }
  // Large buffers first.
  std::vector<TileSymbolId> in_workspace;
  for (size_t i = 0; i < n; ++i) {
    if (d.structure.definition[i] >= 0 && d.out.symbols[i].scope == Scope::kGrid)
      in_workspace.push_back(static_cast<TileSymbolId>(i));
  }
  std::ranges::sort(in_workspace, {}, [&](TileSymbolId id) {
    return std::pair(-d.out.symbols[static_cast<size_t>(id)].bytes, id);
  });
  for (const TileSymbolId id : in_workspace) {
    SymbolScope& scope = d.out.symbols[static_cast<size_t>(id)];
    scope.offset = d.out.workspace_bytes;
    d.out.workspace_bytes += aligned(scope.bytes);
  }
  const std::vector<ArenaSlot> slots = arena_slots(d);
  const Placed placed = place_slots(slots);
  d.out.block_bytes = placed.bytes;
  for (size_t s = 0; s < slots.size(); ++s) {
    const std::vector<TileSymbolId>& held = slots[s].held;
    for (size_t h = 0; h < held.size(); ++h) {
      SymbolScope& scope = d.out.symbols[static_cast<size_t>(held[h])];
      scope.offset = placed.offsets[s];
      if (h > 0)
        scope.reason +=
            "; in the place of " + d.program.symbols[static_cast<size_t>(held[h - 1])].name;
    }
  }
  d.out.registers = most_registers(d);
  return {};
}

}  // namespace weft
