#include "tile/analysis/loads_ahead.h"

#include <algorithm>
#include <map>
#include <set>

#include "tile/analysis/same_blocks.h"
#include "tile/places.h"

namespace weft {

namespace {

/// A read of an input that is all that the statement does.
bool is_plain_load(const TileProgram& program, const TileStatement& statement) {
  if (statement.combiner != TileCombiner::kNone || statement.assign != AssignOp::kAssign ||
      statement.targets.size() != 1 || statement.value->kind != Scalar::Kind::kRead) {
    return false;
  }
  const Scalar& read = *statement.value;
  const TileSymbol* symbol = &program.symbols[static_cast<size_t>(read.symbol)];
  if (!read.operands.empty() || read.fill ||
      read.type != program.symbols[static_cast<size_t>(statement.targets[0].symbol)].type) {
    return false;
  }
  // What a view shows is stored by nests, unless it is a part of an input.
  while (symbol->view_of >= 0) symbol = &program.symbols[static_cast<size_t>(symbol->view_of)];
  return symbol->kind == TileSymbol::Kind::kInput;
}

bool reads_memory(const TileProgram& program, const TileStatement& statement) {
  bool reads = false;
  visit(statement.value, [&](const Scalar& s) {
    reads |= s.kind == Scalar::Kind::kRead &&
             program.symbols[static_cast<size_t>(s.symbol)].kind == TileSymbol::Kind::kInput;
  });
  return reads;
}

bool is_grid_loop(const TileNode& node) {
  return node.kind == TileNode::Kind::kLoop && node.loop->kind == TileLoop::Kind::kGrid;
}

class AheadSearch {
 public:
  AheadSearch(const TileStructure& structure, const ScopeAnalysis& scopes, bool marked)
      : program_(*structure.program),
        scopes_(scopes),
        marked_(marked),
        keeping_(nests_of_kept(structure, scopes)) {
    size_t number = 0;
    for_each_statement(program_.body, [&](const TileStatement& statement) {
      places_[&statement] = &scopes.statement_places[number++];
    });
  }

  std::vector<LoopAhead> run() {
    int32_t phase = 0;
    for (size_t n = 0; n < program_.body.size();) {
      size_t end = n + 1;
      while (end < program_.body.size() && !meets_before(end) && !is_step(end)) ++end;
      if (meets_before(n)) {
        ++phase;
        nests(n, end, phase);
      }
      n = end;
    }
    return std::move(out_);
  }

 private:
  bool meets_before(size_t n) const {
    return std::ranges::any_of(scopes_.barriers, [&](const BarrierPoint& b) {
      return b.scope == Scope::kGrid && b.before.size() == 1 &&
             static_cast<size_t>(b.before[0]) == n;
    });
  }
  bool meets_inside(size_t n) const {
    return std::ranges::any_of(scopes_.barriers, [&](const BarrierPoint& b) {
      return b.scope == Scope::kGrid && b.before.size() > 1 &&
             static_cast<size_t>(b.before[0]) == n;
    });
  }
  bool is_step(size_t n) const {
    const TileNode& node = program_.body[n];
    return node.kind == TileNode::Kind::kLoop && is_recurrence(*node.loop);
  }

  /// Nests [first, end) stand between two barriers.
  void nests(size_t first, size_t end, int32_t phase) {
    for (size_t n = first; n < end && end - first > 1; ++n) {
      if (keeping_.count({static_cast<int32_t>(n)}) != 0) return;
    }
    nests_ = end - first;
    for (size_t n = first; n < end; ++n) {
      if (!is_grid_loop(program_.body[n]) || meets_inside(n)) continue;
      path_ = {static_cast<int32_t>(n)};
      first_loop(program_.body[n].loop->body, phase);
    }
  }

  /// The first loop of the body that is none of the grid.
  void first_loop(const TileBody& body, int32_t phase) {
    path_.push_back(0);
    for (const TileNode& node : body) {
      if (is_grid_loop(node)) return first_loop(node.loop->body, phase);
      if (node.kind == TileNode::Kind::kLoop) return consider(*node.loop, phase);
      if (node.kind != TileNode::Kind::kStatement) return;
      ++path_.back();
    }
  }

  void consider(const TileLoop& loop, int32_t phase) {
    if (loop.kind != TileLoop::Kind::kSeq || loop.stages < 2 || loop.dims.size() != 1 ||
        (marked_ && !loop.ahead)) {
      return;
    }
    LoopAhead found{.loop = &loop, .path = path_, .loads = {}, .phase = phase, .nests = nests_};
    for (const TileNode& node : loop.body) {
      if (node.kind != TileNode::Kind::kStatement) continue;
      const TileStatement& s = node.statement;
      if (!can_go(s)) {
        found.all &= !reads_memory(program_, s);
        continue;
      }
      found.bytes += elements_of_stage(s) * byte_size(s.value->type) * (loop.stages - 1);
      found.loads.push_back(&s);
    }
    if (!found.loads.empty()) out_.push_back(std::move(found));
  }

  /// Without what pads its rows.
  int64_t elements_of_stage(const TileStatement& s) const {
    int64_t elements = 1;
    for (const int64_t extent : scopes_.symbols[static_cast<size_t>(s.targets[0].symbol)].extents)
      elements *= extent;
    return elements;
  }

  /// Copies of 4, 8 and 16 bytes need no register on their way, where each thread has its part.
  bool can_go(const TileStatement& s) const {
    if (!is_plain_load(program_, s)) return false;
    const SymbolScope& buffer = scopes_.symbols[static_cast<size_t>(s.targets[0].symbol)];
    if (!buffer.staged || buffer.scope != Scope::kBlock) return false;
    const Place& place = *places_.at(&s);
    int64_t placed = 1;
    for (const Place::Axis& axis : place.axes) {
      for (const Place::Digit& digit : axis.digits) placed *= digit.extent;
    }
    const bool all_threads = level_extent(place, PlaceLevel::kWarp) == program_.warps &&
                             level_extent(place, PlaceLevel::kLane) == 32;
    const int64_t bytes = level_extent(place, PlaceLevel::kVec) * byte_size(s.value->type);
    return all_threads && placed == elements_of_stage(s) &&
           (bytes == 4 || bytes == 8 || bytes == 16);
  }

  const TileProgram& program_;
  const ScopeAnalysis& scopes_;
  bool marked_;
  std::set<NestPath> keeping_;
  std::map<const TileStatement*, const Place*> places_;
  std::vector<int32_t> path_;  ///< of the node at hand
  size_t nests_ = 1;           ///< of the phase at hand
  std::vector<LoopAhead> out_;
};

}  // namespace

bool is_loaded_ahead(const TileProgram& program, const TileLoop& loop,
                     const TileStatement& statement) {
  return loop.ahead && is_plain_load(program, statement);
}

bool has_loop_ahead(const TileBody& body) {
  return std::ranges::any_of(body, [](const TileNode& node) {
    return node.kind == TileNode::Kind::kLoop &&
           (node.loop->ahead || has_loop_ahead(node.loop->body));
  });
}

std::vector<LoopAhead> loops_ahead(const TileStructure& structure, const ScopeAnalysis& scopes,
                                   bool marked) {
  const TileProgram& program = *structure.program;
  const bool packs = std::ranges::any_of(
      program.body, [](const TileNode& node) { return node.kind == TileNode::Kind::kPack; });
  if (program.cpu || packs || program.one_cluster || scopes.cluster_blocks > 1 ||
      !program.blocks.is_const()) {
    return {};
  }
  return AheadSearch(structure, scopes, marked).run();
}

}  // namespace weft
