#include <algorithm>

#include "lower/lowering.h"

namespace weft::lowering {

int64_t Lowering::grid_items_below(const TileLoop& loop, size_t dim) const {
  int64_t items = 1;
  for (size_t d = dim; d < loop.dims.size(); ++d) {
    const TileLoop::Dim& info = loop.dims[d];
    const auto value = [&](int id) { return program_.vars[static_cast<size_t>(id)].extent; };
    const int64_t extent =
        std::max<int64_t>(weft::evaluate(info.end, value) - weft::evaluate(info.begin, value), 0);
    items *= (extent + info.step - 1) / info.step;
  }
  for (const TileNode& node : loop.body) {
    if (node.kind == TileNode::Kind::kLoop && node.loop->kind != TileLoop::Kind::kSeq) {
      items *= grid_items_below(*node.loop, 0);
    }
  }
  return items;
}

int64_t Lowering::grid_items(const TileNode& nest) const {
  if (nest.kind == TileNode::Kind::kLoop && nest.loop->kind != TileLoop::Kind::kSeq) {
    return grid_items_below(*nest.loop, 0);
  }
  return 1;
}

IndexExpr Lowering::open_items_below(const TileLoop& loop, size_t dim) const {
  const auto range = [this](int id) { return range_of_var(id); };
  IndexExpr items = 1;
  for (size_t d = dim; d < loop.dims.size(); ++d) {
    const TileLoop::Dim& info = loop.dims[d];
    const IndexExpr extent = max(bind(info.end) - bind(info.begin), 0);
    items = items * floor_div(extent + (info.step - 1), info.step);
  }
  for (const TileNode& node : loop.body) {
    if (node.kind == TileNode::Kind::kLoop && node.loop->kind != TileLoop::Kind::kSeq)
      items = items * open_items_below(*node.loop, 0);
  }
  return simplify(items, range);
}

IndexExpr Lowering::open_grid_items(const TileNode& nest) const {
  const bool grid = nest.kind == TileNode::Kind::kLoop && nest.loop->kind != TileLoop::Kind::kSeq;
  return grid ? open_items_below(*nest.loop, 0) : IndexExpr(1);
}

/// One phase: the items of the nests one after another in one list.
Status Lowering::emit_phase(const std::vector<Nest>& nests) {
  IndexExpr items = 0;
  for (const Nest& nest : nests) items = items + open_grid_items(*nest.node);
  const auto [begin, end] = builder_.begin_phase(items.is_const() ? items.constant() : 1);
  for (int32_t a = 0; a < arguments_; ++a) builder_.argument(a);
  IndexExpr first = 0;
  for (const Nest& nest : nests) {
    const IndexExpr count = open_grid_items(*nest.node);
    Reg lo = begin, hi = end;
    if (nests.size() > 1) {
      const Reg base = emit_index(first);
      lo = builder_.apply(
          ScalarOp::kMax,
          {builder_.apply(ScalarOp::kSub, {begin, base}, DType::kI64), builder_.int_constant(0)},
          DType::kI64);
      hi = builder_.apply(
          ScalarOp::kMin,
          {builder_.apply(ScalarOp::kSub, {end, base}, DType::kI64), emit_index(count)},
          DType::kI64);
    }
    WEFT_RETURN_IF_ERROR(emit_nest(nest, lo, hi));
    first = first + count;
  }
  builder_.end_phase();
  return {};
}

Status Lowering::emit_nest(const Nest& nest, Reg begin, Reg end) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<GridPiece> pieces,
                        distribute_grid(program_, scopes_, *nest.node, nest.path));
  if (pieces.empty()) {
    emit_grid_nest(*nest.node, begin, end);
    return {};
  }
  begin_ = begin;
  end_ = end;
  emit_pieces(pieces);
  distributed_.clear();
  return {};
}

void Lowering::emit_pieces(const std::vector<GridPiece>& pieces) {
  for (const GridPiece& piece : pieces) {
    switch (piece.kind) {
      case GridPiece::Kind::kItems:
        if (piece.loop != nullptr) bind_carried_buffers(*piece.loop, 0);
        emit_grid_nest(piece.items, begin_, end_);
        break;
      case GridPiece::Kind::kBarrier:
        builder_.barrier(KernelBarrier::kGrid);
        break;
      case GridPiece::Kind::kLoop:
        distributed_[piece.loop] = &piece.pieces;
        emit_iterations(*piece.loop, {});
        break;
    }
  }
}

void Lowering::emit_grid_nest(const TileNode& nest, Reg begin, Reg end) {
  tiles_.clear();
  next_tiles_.clear();
  if (nest.kind == TileNode::Kind::kLoop && nest.loop->kind != TileLoop::Kind::kSeq) {
    emit_grid_dim(*nest.loop, 0, begin, end);
    return;
  }
  const TileBody body{nest};
  const Reg some = builder_.apply(ScalarOp::kLt, {begin, end}, DType::kBool);
  builder_.if_then_else(some, [&] {
    emit_body(body);
    return std::vector<Reg>{};
  });
}

void Lowering::emit_grid_dim(const TileLoop& loop, size_t dim, Reg lo, Reg hi) {
  if (dim == loop.dims.size()) {
    emit_grid_body(loop.body, lo, hi);
    return;
  }
  const TileLoop::Dim& d = loop.dims[dim];
  const IndexExpr bounds[] = {bind(d.begin), bind(d.end)};
  if (!bounds[0].is_const() || !bounds[1].is_const()) {
    emit_open_grid_dim(loop, dim, lo, hi);
    return;
  }
  const int64_t begin = bounds[0].constant();
  const int64_t extent = std::max<int64_t>(bounds[1].constant() - begin, 0);
  const int64_t whole = extent / d.step, rest = extent % d.step;
  if (extent == 0) return;
  OpenDim open{&loop, dim, begin, extent, lo, hi};
  find_iterations(open);
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return builder_.apply(o, {a, b}, DType::kI64); };
  const auto num = [&](int64_t v) { return builder_.int_constant(v); };
  const auto run = [&](int64_t from, int64_t to) {
    const Reg a = op(ScalarOp::kMax, open.first, num(from)),
              b = op(ScalarOp::kMin, open.last, num(to));
    builder_.for_loop(a, b, 1, {}, [&](Reg iv, const std::vector<Reg>&) {
      const auto saved_tiles = tiles_;
      const IndexExpr t = to - from == 1 ? IndexExpr(from) : add_kernel_var(iv, {from, to - 1});
      emit_open_iteration(open, t * d.step + begin, to - from == 1 ? num(from) : iv);
      tiles_ = saved_tiles;
      return std::vector<Reg>{};
    });
  };
  for (const Piece& piece : split_iterations(loop.body, d, begin, whole))
    run(piece.begin, piece.end);
  if (rest != 0) {
    auto& valid = valid_[static_cast<size_t>(d.offset)];
    valid = Valid{rest, kNoReg};
    run(whole, whole + 1);
    valid.reset();
  }
}

void Lowering::emit_grid_body(const TileBody& body, Reg lo, Reg hi) {
  for (const TileNode& node : body) {
    if (node.kind == TileNode::Kind::kLoop && node.loop->kind != TileLoop::Kind::kSeq) {
      emit_grid_dim(*node.loop, 0, lo, hi);
    } else {
      emit_body({node});
    }
  }
}

}  // namespace weft::lowering
