#include "tile/analysis/executions.h"

#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "tile/analysis/relate_reads.h"

namespace weft {
namespace {

bool is_grid(const TileLoop& loop) { return loop.kind != TileLoop::Kind::kSeq; }

/// Origins of grid loops in an index, directly or through an offset (whose tail depends on the
/// origin).
void add_grid_origins(const TileStructure& structure, const IndexExpr& e,
                      std::set<TileVarId>* out) {
  for (const int id : variables(e)) {
    const auto found = structure.dim_of.find(id);
    if (found == structure.dim_of.end() || !is_grid(*found->second.first)) continue;
    out->insert(structure.dim(id).origin);
  }
}

void add_grid_origins(const TileStructure& structure, const ScalarRef& s,
                      std::set<TileVarId>* out) {
  visit(s, [&](const Scalar& node) {
    if (node.kind == Scalar::Kind::kIndex) add_grid_origins(structure, node.index, out);
    for (const IndexExpr& e : node.indices) add_grid_origins(structure, e, out);
  });
}

}  // namespace

std::vector<std::set<TileVarId>> grid_dependences(const TileStructure& structure,
                                                  const ScopeAnalysis& scopes) {
  std::vector<std::set<TileVarId>> used(structure.sites.size());
  for (size_t i = 0; i < structure.sites.size(); ++i) {
    const Site& site = structure.sites[i];
    add_grid_origins(structure, site.value, &used[i]);
    if (site.kind == Site::Kind::kStatement) {
      for (const TileRef& target : site.statement->targets) {
        for (const IndexExpr& e : target.indices) add_grid_origins(structure, e, &used[i]);
      }
    }
    if (site.kind == Site::Kind::kCarry) {
      for (const IndexExpr& e : site.carry->target.indices) {
        add_grid_origins(structure, e, &used[i]);
      }
    }
    for (const Guard& guard : site.guards) {
      add_grid_origins(structure, std::make_shared<const Scalar>(*guard.condition), &used[i]);
    }
    for (const TileLoop* loop : site.loops) {
      if (is_grid(*loop)) continue;
      for (const TileLoop::Dim& dim : loop->dims) {
        add_grid_origins(structure, dim.begin, &used[i]);
        add_grid_origins(structure, dim.end, &used[i]);
      }
    }
  }
  // Through values, until nothing changes; carries make cycles.
  for (bool changed = true; changed;) {
    changed = false;
    for (const ReadSite& read : structure.reads) {
      const size_t symbol = static_cast<size_t>(read.read->symbol);
      if (structure.definition[symbol] < 0 || scopes.symbols[symbol].scope == Scope::kGrid) {
        continue;
      }
      std::set<TileVarId>& to = used[static_cast<size_t>(read.site)];
      const size_t before = to.size();
      // What a cluster shares is the same for all of its blocks.
      const bool of_cluster = scopes.symbols[symbol].scope == Scope::kCluster;
      const auto add = [&](int32_t site) {
        for (const TileVarId origin : used[static_cast<size_t>(site)]) {
          const TileLoop& loop = *structure.dim_of.at(origin).first;
          if (of_cluster && loop.kind == TileLoop::Kind::kCluster) continue;
          to.insert(origin);
        }
      };
      add(structure.definition[symbol]);
      for (const int32_t update : structure.updates[symbol]) add(update);
      changed = changed || to.size() != before;
    }
  }
  return used;
}

namespace {

/// The grid loops of a nest, outermost first: one chain.
void add_chain(const TileBody& body, std::vector<const TileLoop*>* chain) {
  for (const TileNode& node : body) {
    if (node.kind == TileNode::Kind::kLoop && is_grid(*node.loop)) {
      chain->push_back(node.loop.get());
      return add_chain(node.loop->body, chain);
    }
  }
}

}  // namespace

Result<GridIterations> grid_iterations(const TileStructure& structure, const Site& site,
                                       int64_t limit) {
  std::vector<const TileLoop*> chain;
  for (const TileLoop* loop : site.loops) {
    if (is_grid(*loop)) chain.push_back(loop);
  }
  if (!chain.empty()) add_chain(chain.back()->body, &chain);
  GridIterations out;
  const TileProgram& program = *structure.program;
  std::vector<int64_t> env(program.vars.size(), 0);
  for (size_t i = 0; i < env.size(); ++i) {
    if (program.vars[i].kind == TileVar::Kind::kSize) env[i] = program.vars[i].extent;
  }
  const auto value = [&](int id) { return env[static_cast<size_t>(id)]; };
  std::vector<const TileLoop::Dim*> dims;
  for (const TileLoop* loop : chain) {
    for (const TileLoop::Dim& dim : loop->dims) {
      dims.push_back(&dim);
      out.origins.push_back(dim.origin);
    }
  }
  bool too_many = false;
  const std::function<void(size_t)> enumerate = [&](size_t d) {
    if (too_many) return;
    if (d == dims.size()) {
      too_many = static_cast<int64_t>(out.values.size()) >= limit;
      std::vector<int64_t> point;
      for (const TileVarId origin : out.origins) point.push_back(env[static_cast<size_t>(origin)]);
      out.values.push_back(std::move(point));
      return;
    }
    const int64_t begin = evaluate(dims[d]->begin, value), end = evaluate(dims[d]->end, value);
    for (int64_t at = begin; at < end && !too_many; at += dims[d]->step) {
      env[static_cast<size_t>(dims[d]->origin)] = at;
      enumerate(d + 1);
    }
  };
  enumerate(0);
  if (too_many) {
    return invalid_input(
        fmt::format("tile program {}: more than {} grid iterations", program.name, limit));
  }
  const int64_t count = static_cast<int64_t>(out.values.size());
  int64_t blocks = site.pack_member >= 0
                       ? structure.pack_shares[static_cast<size_t>(site.pack_member)]
                       : evaluate(program.blocks, value);
  // An unbound number of blocks: one each.
  if (blocks < 1 || blocks > count) blocks = std::max<int64_t>(count, 1);
  int64_t block = 0;
  for (int64_t i = 0; i < count; ++i) {
    while (i >= (block + 1) * count / blocks) ++block;
    out.block.push_back(block);
  }
  return out;
}

std::map<std::vector<int64_t>, int64_t> execution_counts(const GridIterations& iterations,
                                                         const std::vector<TileVarId>& around,
                                                         const std::set<TileVarId>& used,
                                                         int64_t together) {
  std::set<std::vector<int64_t>> seen;
  std::map<std::vector<int64_t>, int64_t> counts;
  for (size_t i = 0; i < iterations.values.size(); ++i) {
    std::vector<int64_t> key{iterations.block[i] / together}, own;
    for (size_t o = 0; o < iterations.origins.size(); ++o) {
      const TileVarId origin = iterations.origins[o];
      if (used.count(origin) != 0) key.push_back(iterations.values[i][o]);
      if (std::find(around.begin(), around.end(), origin) != around.end()) {
        own.push_back(iterations.values[i][o]);
      }
    }
    if (seen.insert(std::move(key)).second) ++counts[own];
  }
  return counts;
}

int64_t blocks_together(const TileStructure& structure, const Site& site) {
  if (site.loops.empty() || !site.loops.back()->by_cluster) return 1;
  const TileLoop::Dim& dim = site.loops.back()->dims[0];
  const Interval r = structure.ranges[static_cast<size_t>(dim.origin)];
  return (r.hi - r.lo) / dim.step + 1;
}

namespace {

/// Iterations of the dimensions from `dim` on; none where a bound is no constant.
std::optional<int64_t> iterations_below(const TileProgram& program, const TileLoop& loop,
                                        size_t dim) {
  int64_t count = 1;
  for (size_t d = dim; d < loop.dims.size(); ++d) {
    const TileLoop::Dim& info = loop.dims[d];
    const IndexExpr length = substitute(info.end - info.begin, [&](int id) -> IndexExpr {
      const TileVar& var = program.vars[static_cast<size_t>(id)];
      const bool bound = var.kind == TileVar::Kind::kSize && var.extent > 0;
      return bound ? IndexExpr(var.extent) : IndexExpr::var(id);
    });
    if (!length.is_const()) return std::nullopt;
    count *= std::max<int64_t>((length.constant() + info.step - 1) / info.step, 0);
  }
  return count;
}

/// The grid loop of a GPU's program whose blocks take several of its iterations, or make something
/// by clusters before them, where that is all of the program.
const TileLoop* repeated_grid(const TileProgram& program) {
  if (program.cpu || program.body.size() != 1 || !program.blocks.is_const()) return nullptr;
  const TileNode& node = program.body[0];
  if (node.kind != TileNode::Kind::kLoop || !is_grid(*node.loop)) return nullptr;
  bool by_cluster = false;
  for (const TileNode& inner : node.loop->body) {
    if (inner.kind != TileNode::Kind::kLoop) continue;
    if (is_grid(*inner.loop)) return nullptr;
    by_cluster |= inner.loop->by_cluster;
  }
  const auto items = iterations_below(program, *node.loop, 0);
  if (!items) return nullptr;
  return by_cluster || *items > program.blocks.constant() ? node.loop.get() : nullptr;
}

}  // namespace

std::map<const TileStatement*, size_t> kept_statements(const TileStructure& structure,
                                                       const ScopeAnalysis& scopes) {
  const TileProgram& program = *structure.program;
  std::map<const TileStatement*, size_t> out;
  const TileLoop* loop = repeated_grid(program);
  if (loop == nullptr) return out;
  const std::vector<std::set<TileVarId>> used = grid_dependences(structure, scopes);
  std::set<TileSymbolId> known;
  for (size_t i = 0; i < structure.sites.size(); ++i) {
    const Site& site = structure.sites[i];
    const bool shared = site.loops.size() == 2 && site.loops.back()->by_cluster;
    if (site.kind != Site::Kind::kStatement || (site.loops.size() != 1 && !shared) ||
        !site.guards.empty()) {
      continue;
    }
    const auto stays = [&](TileSymbolId s) {
      return program.symbols[static_cast<size_t>(s)].kind == TileSymbol::Kind::kValue &&
             scopes.symbols[static_cast<size_t>(s)].scope <=
                 (shared ? Scope::kCluster : Scope::kBlock);
    };
    bool kept = std::ranges::all_of(site.statement->targets,
                                    [&](const TileRef& t) { return stays(t.symbol); });
    visit(site.value, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead) return;
      const TileSymbol& read = program.symbols[static_cast<size_t>(s.symbol)];
      kept &= read.kind == TileSymbol::Kind::kInput || known.count(s.symbol) != 0;
    });
    size_t depth = 0;
    for (const TileVarId origin : used[i]) {
      depth = std::max(depth, static_cast<size_t>(structure.dim_of.at(origin).second) + 1);
    }
    if (!kept || depth == loop->dims.size() ||
        iterations_below(program, *loop, depth).value_or(1) < 2) {
      continue;
    }
    out[site.statement] = depth;
    for (const TileRef& t : site.statement->targets) known.insert(t.symbol);
  }
  return out;
}

std::set<TileVarId> read_variables(const TileProgram& program, const Scalar& read) {
  std::set<TileVarId> vars;
  for (const IndexExpr& e : read.indices) add_box_variables(program, e, &vars);
  for (const ScalarRef& operand : read.operands) add_box_variables(program, operand, &vars);
  return vars;
}

int64_t warp_copies(const TileStructure& structure, const ScopeAnalysis& scopes,
                    const PlaceTable& places, const ReadSite& read) {
  if (structure.program->cpu) return 1;
  const Site& site = structure.sites[static_cast<size_t>(read.site)];
  // What loops load ahead is asked for once (lower/gpu/staged_loops.cpp).
  if (site.kind == Site::Kind::kStatement &&
      scopes.symbols[static_cast<size_t>(site.statement->targets[0].symbol)].staged)
    return 1;
  const Place place = reader_place(structure, places, read);
  const std::set<TileVarId> vars = read_variables(*structure.program, *read.read);
  int64_t apart = 1;
  for (const Place::Axis& axis : place.axes) {
    if (vars.count(axis.var) == 0) continue;
    for (const Place::Digit& digit : axis.digits) {
      if (digit.level == PlaceLevel::kWarp) apart *= digit.extent;
    }
  }
  return std::max<int64_t>(structure.program->warps / apart, 1);
}

}  // namespace weft
