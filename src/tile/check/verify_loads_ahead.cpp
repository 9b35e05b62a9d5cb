#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "tile/analysis/loads_ahead.h"
#include "tile/analysis/relate_reads.h"
#include "tile/text/tile_printer.h"

namespace weft {

namespace {

/// Sites that make, read or update a symbol, in their order.
std::set<int32_t> accesses(const TileStructure& structure, TileSymbolId symbol) {
  const auto at = static_cast<size_t>(symbol);
  std::set<int32_t> out(structure.updates[at].begin(), structure.updates[at].end());
  if (structure.definition[at] >= 0) out.insert(structure.definition[at]);
  for (const ReadSite* read : structure.reads_of(symbol)) out.insert(read->site);
  return out;
}

bool share_bytes(const SymbolScope& a, const SymbolScope& b) {
  return a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

/// What else uses the bytes of a buffer between the barrier before its nest and the end of its
/// loop: in the nest up to there, or made before the nest and read in it or behind it; -1.
TileSymbolId touched_by(const TileStructure& structure, const ScopeAnalysis& scopes,
                        TileSymbolId buffer, const Site& load) {
  const int32_t begin = structure.loop_sites.at(load.loops.front()).first;
  const int32_t end = structure.loop_sites.at(load.loops.back()).second;
  for (size_t s = 0; s < scopes.symbols.size(); ++s) {
    const auto id = static_cast<TileSymbolId>(s);
    const Scope scope = scopes.symbols[s].scope;
    const bool in_block = scope == Scope::kBlock || scope == Scope::kCluster;
    if (id == buffer || structure.definition[s] < 0 || !in_block ||
        !share_bytes(scopes.symbols[s], scopes.symbols[static_cast<size_t>(buffer)]))
      continue;
    const std::set<int32_t> sites = accesses(structure, id);
    const auto inside = sites.lower_bound(begin);
    const bool alive = *sites.begin() < begin && inside != sites.end();
    if (alive || (inside != sites.end() && *inside < end)) return id;
  }
  return -1;
}

void collect_marked(const TileBody& body, std::vector<const TileLoop*>* out) {
  for (const TileNode& node : body) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        break;
      case TileNode::Kind::kLoop:
        if (node.loop->ahead) out->push_back(node.loop.get());
        collect_marked(node.loop->body, out);
        break;
      case TileNode::Kind::kCondition:
        collect_marked(node.condition->body, out);
        break;
      case TileNode::Kind::kPack:
        for (const TilePack::Member& m : node.pack->members) collect_marked(m.body, out);
        break;
    }
  }
}

}  // namespace

Status verify_loads_ahead(const TileProgram& program, const TileStructure& structure,
                          const ScopeAnalysis& scopes) {
  std::vector<const TileLoop*> marked;
  collect_marked(program.body, &marked);
  if (marked.empty()) return {};
  const auto fail = [&](const std::string& what) {
    return invalid_input(fmt::format("tile program {}: {}", program.name, what));
  };
  const std::vector<LoopAhead> ahead = loops_ahead(structure, scopes, /*marked=*/true);
  for (const TileLoop* loop : marked) {
    const auto found = std::ranges::find(ahead, loop, &LoopAhead::loop);
    if (found == ahead.end()) {
      return fail(loop_name(program, *loop) +
                  " goes ahead of a barrier, and is not the first loop of several stages of a nest "
                  "behind one, or loads nothing that no nest stores");
    }
    for (const TileStatement* load : found->loads) {
      const TileSymbolId buffer = load->targets[0].symbol;
      const int32_t site = structure.definition[static_cast<size_t>(buffer)];
      const TileSymbolId other =
          touched_by(structure, scopes, buffer, structure.sites[static_cast<size_t>(site)]);
      if (other < 0) continue;
      return fail(fmt::format("{} is loaded ahead of a barrier into bytes of {}",
                              program.symbols[static_cast<size_t>(buffer)].name,
                              program.symbols[static_cast<size_t>(other)].name));
    }
  }
  return {};
}

}  // namespace weft
