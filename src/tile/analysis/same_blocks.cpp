#include "tile/analysis/same_blocks.h"

#include <algorithm>

#include "tile/analysis/relate_reads.h"

namespace weft {

namespace {

bool is_grid_loop(const TileNode& node) {
  return node.kind == TileNode::Kind::kLoop && node.loop->kind == TileLoop::Kind::kGrid;
}

/// Whether the body has further loops over blocks.
bool spreads(const TileBody& body) {
  return std::ranges::any_of(body, [](const TileNode& node) {
    switch (node.kind) {
      case TileNode::Kind::kStatement:
        return false;
      case TileNode::Kind::kLoop:
        return node.loop->kind != TileLoop::Kind::kSeq || node.loop->by_cluster ||
               spreads(node.loop->body);
      case TileNode::Kind::kCondition:
        return spreads(node.condition->body);
      case TileNode::Kind::kPack:
        return true;
    }
    return true;
  });
}

/// Iterations of a dimension; 0 where their number is not known.
int64_t trips_of(const TileLoop::Dim& dim) {
  if (!dim.begin.is_const() || !dim.end.is_const()) return 0;
  const int64_t length = dim.end.constant() - dim.begin.constant();
  return length <= 0 ? 0 : (length + dim.step - 1) / dim.step;
}

std::vector<const TileLoop::Dim*> dims_of_blocks(const TileLoop& loop) {
  std::vector<const TileLoop::Dim*> out;
  for (const TileLoop::Dim& dim : loop.dims) {
    if (trips_of(dim) != 1) out.push_back(&dim);
  }
  return out;
}

/// The loop of the nest that stands there; null where none does.
const TileLoop* nest_at(const TileProgram& program, const NestPath& path) {
  const TileBody* body = &program.body;
  if (path.empty() || path.size() > 2) return nullptr;
  for (size_t i = 0; i < path.size(); ++i) {
    const auto child = static_cast<size_t>(path[i]);
    if (child >= body->size() || (*body)[child].kind != TileNode::Kind::kLoop) return nullptr;
    const TileLoop& loop = *(*body)[child].loop;
    if (i + 1 == path.size()) {
      return is_grid_loop((*body)[child]) && !spreads(loop.body) ? &loop : nullptr;
    }
    if (!is_recurrence(loop)) return nullptr;
    body = &loop.body;
  }
  return nullptr;
}

/// The nest in which a site stands; none in a pack.
std::optional<NestPath> plain_nest(const TileProgram& program, const Site& site) {
  if (site.path.empty() || site.pack_member >= 0) return std::nullopt;
  NestPath nest = nest_of(site);
  if (nest_at(program, nest) == nullptr) return std::nullopt;
  return nest;
}

}  // namespace

bool is_nest_of_blocks(const TileStructure& structure, const NestPath& nest) {
  const TileProgram& program = *structure.program;
  if (program.cpu || !program.blocks.is_const()) return false;
  const TileLoop* loop = nest_at(program, nest);
  if (loop == nullptr) return false;
  int64_t items = 1;
  for (const TileLoop::Dim& dim : loop->dims) {
    const int64_t trips = trips_of(dim);
    if (trips == 0 || trips > program.blocks.constant()) return false;
    items *= trips;
    if (items > program.blocks.constant()) return false;
  }
  return true;
}

std::optional<SameOrigins> same_blocks(const TileStructure& structure, const NestPath& earlier,
                                       const NestPath& later) {
  const bool of_step = earlier.size() > 1 && (later.size() < 2 || later[0] != earlier[0]);
  if (earlier >= later || of_step || !is_nest_of_blocks(structure, earlier) ||
      !is_nest_of_blocks(structure, later)) {
    return std::nullopt;
  }
  const auto made = dims_of_blocks(*nest_at(*structure.program, earlier)),
             read = dims_of_blocks(*nest_at(*structure.program, later));
  if (made.size() != read.size()) return std::nullopt;
  SameOrigins out;
  for (size_t d = 0; d < made.size(); ++d) {
    const bool alike = made[d]->begin == read[d]->begin && made[d]->end == read[d]->end &&
                       made[d]->step == read[d]->step;
    if (!alike) return std::nullopt;
    out[read[d]->origin] = made[d]->origin;
  }
  return out;
}

std::set<TileSymbolId> kept_for_later_nests(const TileStructure& structure,
                                            const ScopeAnalysis& scopes) {
  std::set<TileSymbolId> out;
  if (structure.program->cpu) return out;
  for (const ReadSite& read : structure.reads) {
    const auto symbol = static_cast<TileSymbolId>(read.read->symbol);
    const int32_t definition = structure.definition[static_cast<size_t>(symbol)];
    if (definition < 0 || scopes.symbols[static_cast<size_t>(symbol)].scope == Scope::kGrid)
      continue;
    const auto made =
        plain_nest(*structure.program, structure.sites[static_cast<size_t>(definition)]);
    const auto here =
        plain_nest(*structure.program, structure.sites[static_cast<size_t>(read.site)]);
    if (made && here && *made != *here) out.insert(symbol);
  }
  return out;
}

std::set<NestPath> nests_of_kept(const TileStructure& structure, const ScopeAnalysis& scopes) {
  const std::set<TileSymbolId> kept = kept_for_later_nests(structure, scopes);
  std::set<NestPath> out;
  if (kept.empty()) return out;
  const auto add = [&](int32_t site) {
    const auto nest = plain_nest(*structure.program, structure.sites[static_cast<size_t>(site)]);
    if (nest) out.insert(*nest);
  };
  for (const TileSymbolId symbol : kept) add(structure.definition[static_cast<size_t>(symbol)]);
  for (const ReadSite& read : structure.reads) {
    if (kept.count(static_cast<TileSymbolId>(read.read->symbol)) != 0) add(read.site);
  }
  return out;
}

}  // namespace weft
