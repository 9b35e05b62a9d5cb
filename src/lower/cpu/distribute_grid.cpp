#include "lower/cpu/distribute_grid.h"

#include <algorithm>

namespace weft::lowering {

namespace {

using Path = std::vector<int32_t>;

class Distributor {
 public:
  Distributor(const TileProgram& program, const ScopeAnalysis& scopes)
      : program_(program), scopes_(scopes) {
    for (const BarrierPoint& barrier : scopes.barriers) {
      if (barrier.scope == Scope::kGrid) barriers_.push_back(barrier.before);
    }
  }

  Result<std::vector<GridPiece>> run(const TileNode& nest, const Path& path) {
    std::vector<GridPiece> out;
    if (!is_grid(nest) || !barrier_inside(path)) return std::move(out);
    around_.push_back(nest.loop.get());
    WEFT_RETURN_IF_ERROR(take_apart(nest.loop->body, path, &out));
    return std::move(out);
  }

 private:
  static bool is_grid(const TileNode& node) {
    return node.kind == TileNode::Kind::kLoop && node.loop->kind != TileLoop::Kind::kSeq;
  }
  bool barrier_inside(const Path& path) const {
    return std::ranges::any_of(barriers_, [&](const Path& at) {
      return at.size() > path.size() && std::equal(path.begin(), path.end(), at.begin());
    });
  }
  bool barrier_before(const Path& path) const {
    return std::ranges::find(barriers_, path) != barriers_.end();
  }

  Status take_apart(const TileBody& body, Path path, std::vector<GridPiece>* out) {
    TileBody part;
    path.push_back(0);
    for (const TileNode& node : body) {
      pass_barrier(path, &part, out);
      if (node.kind != TileNode::Kind::kLoop || !barrier_inside(path)) {
        part.push_back(node);
      } else if (is_grid(node)) {
        end_part(&part, nullptr, out);
        around_.push_back(node.loop.get());
        WEFT_RETURN_IF_ERROR(take_apart(node.loop->body, path, out));
        around_.pop_back();
      } else {
        WEFT_RETURN_IF_ERROR(check_bounds(*node.loop));
        for (const TileCarry& carry : node.loop->carries) part.push_back(first_value(carry));
        end_part(&part, node.loop.get(), out);
        GridPiece piece{GridPiece::Kind::kLoop, {}, node.loop.get(), {}};
        WEFT_RETURN_IF_ERROR(take_apart(node.loop->body, path, &piece.pieces));
        out->push_back(std::move(piece));
      }
      ++path.back();
    }
    pass_barrier(path, &part, out);
    end_part(&part, nullptr, out);
    return {};
  }

  void pass_barrier(const Path& path, TileBody* part, std::vector<GridPiece>* out) const {
    if (!barrier_before(path)) return;
    end_part(part, nullptr, out);
    out->push_back({GridPiece::Kind::kBarrier, {}, nullptr, {}});
  }

  /// The statements so far, in the loops of the grid around them.
  void end_part(TileBody* part, const TileLoop* entered, std::vector<GridPiece>* out) const {
    if (part->empty()) return;
    TileBody body = std::move(*part);
    part->clear();
    for (size_t n = around_.size(); n-- > 0;) {
      TileLoop loop = *around_[n];
      loop.body = std::move(body);
      body = {TileNode::of(std::move(loop))};
    }
    out->push_back({GridPiece::Kind::kItems, std::move(body[0]), entered, {}});
  }

  TileNode first_value(const TileCarry& carry) const {
    TileStatement statement;
    statement.targets = {carry.target};
    statement.targets[0].next = false;
    statement.value = carry.initial;
    statement.place = carry.place.empty()
                          ? scopes_.symbols[static_cast<size_t>(carry.target.symbol)].place
                          : carry.place;
    return TileNode::of(std::move(statement));
  }

  Status check_bounds(const TileLoop& loop) const {
    for (const TileLoop::Dim& dim : loop.dims) {
      for (const TileLoop* grid : around_) {
        for (const TileLoop::Dim& g : grid->dims) {
          if (!uses_var(dim.begin, g.origin) && !uses_var(dim.end, g.origin)) continue;
          return unsupported(program_.name + " has a barrier in a loop over " + name(dim.origin) +
                             " whose bounds differ between iterations of grid " + name(g.origin));
        }
      }
    }
    return {};
  }
  const std::string& name(TileVarId var) const {
    return program_.vars[static_cast<size_t>(var)].name;
  }

  const TileProgram& program_;
  const ScopeAnalysis& scopes_;
  std::vector<Path> barriers_;
  std::vector<const TileLoop*> around_;
};

}  // namespace

Result<std::vector<GridPiece>> distribute_grid(const TileProgram& program,
                                               const ScopeAnalysis& scopes, const TileNode& nest,
                                               const Path& path) {
  return Distributor(program, scopes).run(nest, path);
}

bool has_inner_barrier(const TileProgram& program, const ScopeAnalysis& scopes) {
  return std::ranges::any_of(scopes.barriers, [&](const BarrierPoint& barrier) {
    const bool packed =
        program.body[static_cast<size_t>(barrier.before[0])].kind == TileNode::Kind::kPack;
    return barrier.scope == Scope::kGrid && barrier.before.size() > (packed ? 3U : 1U);
  });
}

}  // namespace weft::lowering
