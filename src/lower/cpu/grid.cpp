#include "lower/cpu/grid.h"

#include <algorithm>

#include "lower/core/index_emission.h"
#include "lower/core/loops.h"
#include "lower/core/predicates.h"
#include "lower/cpu/open_grid.h"

namespace weft::lowering {

namespace {

void emit_grid_nest(CpuWriter& w, const TileNode& nest, Reg begin, Reg end) {
  w.registers.tiles.clear();
  w.registers.next.clear();
  if (nest.kind == TileNode::Kind::kLoop && nest.loop->kind != TileLoop::Kind::kSeq) {
    emit_grid_dim(w, *nest.loop, 0, begin, end);
    return;
  }
  const TileBody body{nest};
  const Reg some = w.builder.apply(ScalarOp::kLt, {begin, end}, DType::kBool);
  w.builder.if_then_else(some, [&] {
    emit_body(w, body);
    return std::vector<Reg>{};
  });
}

Status emit_nest(CpuWriter& w, const Nest& nest, Reg begin, Reg end) {
  WEFT_ASSIGN_OR_RETURN(const std::vector<GridPiece> pieces,
                        distribute_grid(w.program, w.scopes, *nest.node, nest.path));
  if (pieces.empty()) {
    emit_grid_nest(w, *nest.node, begin, end);
    return {};
  }
  w.begin = begin;
  w.end = end;
  emit_pieces(w, pieces);
  w.distributed.clear();
  return {};
}

void emit_grid_body(CpuWriter& w, const TileBody& body, Reg lo, Reg hi) {
  for (const TileNode& node : body) {
    if (node.kind == TileNode::Kind::kLoop && node.loop->kind != TileLoop::Kind::kSeq) {
      emit_grid_dim(w, *node.loop, 0, lo, hi);
    } else {
      emit_body(w, {node});
    }
  }
}

}  // namespace

IndexExpr open_items_below(const CpuWriter& w, const TileLoop& loop, size_t dim) {
  const auto range = [&](int id) { return range_of_var(w, id); };
  IndexExpr items = 1;
  for (size_t d = dim; d < loop.dims.size(); ++d) {
    const TileLoop::Dim& info = loop.dims[d];
    const IndexExpr extent = max(bind(w, info.end) - bind(w, info.begin), 0);
    items = items * floor_div(extent + (info.step - 1), info.step);
  }
  for (const TileNode& node : loop.body) {
    if (node.kind == TileNode::Kind::kLoop && node.loop->kind != TileLoop::Kind::kSeq)
      items = items * open_items_below(w, *node.loop, 0);
  }
  return simplify(items, range);
}

IndexExpr open_grid_items(const CpuWriter& w, const TileNode& nest) {
  const bool grid = nest.kind == TileNode::Kind::kLoop && nest.loop->kind != TileLoop::Kind::kSeq;
  return grid ? open_items_below(w, *nest.loop, 0) : IndexExpr(1);
}

namespace {

/// Whether the items of the nests are one list: those of a pack are, and where products of their
/// numbers might be too large.
bool is_list(const CpuWriter& w, const std::vector<Nest>& nests) {
  constexpr int64_t kMostItems = int64_t{1} << 31;
  return std::ranges::any_of(nests, [&](const Nest& nest) {
    const TileNode& top = w.program.body[static_cast<size_t>(nest.path[0])];
    const IndexExpr items = open_grid_items(w, *nest.node);
    return top.kind == TileNode::Kind::kPack || (items.is_const() && items.constant() > kMostItems);
  });
}

/// Item `at` of the phase's, among those of one of its nests.
Reg in_proportion(CpuWriter& w, Reg at, const IndexExpr& count, const IndexExpr& all) {
  if (count == all) return at;
  const Reg scaled = w.builder.apply(ScalarOp::kMul, {at, emit_index(w, count)}, DType::kI64);
  return w.builder.apply(ScalarOp::kDiv, {scaled, emit_index(w, all)}, DType::kI64);
}

}  // namespace

IndexExpr items_of_phase(const CpuWriter& w, const std::vector<Nest>& nests) {
  const bool list = is_list(w, nests);
  IndexExpr all = open_grid_items(w, *nests.front().node);
  for (size_t n = 1; n < nests.size(); ++n) {
    const IndexExpr items = open_grid_items(w, *nests[n].node);
    all = list ? all + items : max(all, items);
  }
  return all;
}

Status emit_phase(CpuWriter& w, const std::vector<Nest>& nests) {
  const bool list = is_list(w, nests);
  const IndexExpr all = items_of_phase(w, nests);
  const auto [begin, end] = w.builder.begin_phase(all.is_const() ? all.constant() : 1);
  for (int32_t a = 0; a < w.vars.arguments; ++a) w.builder.argument(a);
  IndexExpr first = 0;
  for (const Nest& nest : nests) {
    const IndexExpr count = open_grid_items(w, *nest.node);
    Reg lo = begin, hi = end;
    if (!list) {
      lo = in_proportion(w, begin, count, all);
      hi = in_proportion(w, end, count, all);
    } else if (nests.size() > 1) {
      const Reg base = emit_index(w, first);
      lo = w.builder.apply(
          ScalarOp::kMax,
          {w.builder.apply(ScalarOp::kSub, {begin, base}, DType::kI64), w.builder.int_constant(0)},
          DType::kI64);
      hi = w.builder.apply(
          ScalarOp::kMin,
          {w.builder.apply(ScalarOp::kSub, {end, base}, DType::kI64), emit_index(w, count)},
          DType::kI64);
    }
    WEFT_RETURN_IF_ERROR(emit_nest(w, nest, lo, hi));
    first = first + count;
  }
  w.builder.end_phase();
  return {};
}

void emit_pieces(CpuWriter& w, const std::vector<GridPiece>& pieces) {
  for (const GridPiece& piece : pieces) {
    switch (piece.kind) {
      case GridPiece::Kind::kItems:
        if (piece.loop != nullptr) bind_carried_buffers(w, *piece.loop, 0);
        emit_grid_nest(w, piece.items, w.begin, w.end);
        break;
      case GridPiece::Kind::kBarrier:
        w.builder.barrier(KernelBarrier::kGrid);
        break;
      case GridPiece::Kind::kLoop:
        w.distributed[piece.loop] = &piece.pieces;
        emit_iterations(w, *piece.loop, {});
        break;
    }
  }
}

void emit_grid_dim(CpuWriter& w, const TileLoop& loop, size_t dim, Reg lo, Reg hi) {
  if (dim == loop.dims.size()) {
    emit_grid_body(w, loop.body, lo, hi);
    return;
  }
  const TileLoop::Dim& d = loop.dims[dim];
  const IndexExpr bounds[] = {bind(w, d.begin), bind(w, d.end)};
  if (!bounds[0].is_const() || !bounds[1].is_const()) {
    emit_open_grid_dim(w, loop, dim, lo, hi);
    return;
  }
  const int64_t begin = bounds[0].constant();
  const int64_t extent = std::max<int64_t>(bounds[1].constant() - begin, 0);
  const int64_t whole = extent / d.step, rest = extent % d.step;
  if (extent == 0) return;
  OpenDim open{&loop, dim, begin, extent, lo, hi};
  find_iterations(w, open);
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  const auto num = [&](int64_t v) { return w.builder.int_constant(v); };
  const auto run = [&](int64_t from, int64_t to) {
    const Reg a = op(ScalarOp::kMax, open.first, num(from)),
              b = op(ScalarOp::kMin, open.last, num(to));
    w.builder.for_loop(a, b, 1, {}, [&](Reg iv, const std::vector<Reg>&) {
      const auto saved_tiles = w.registers.tiles;
      const IndexExpr t = to - from == 1 ? IndexExpr(from) : add_kernel_var(w, iv, {from, to - 1});
      emit_open_iteration(w, open, t * d.step + begin, to - from == 1 ? num(from) : iv);
      w.registers.tiles = saved_tiles;
      return std::vector<Reg>{};
    });
  };
  for (const Piece& piece : split_iterations(w, loop.body, d, begin, whole))
    run(piece.begin, piece.end);
  if (rest != 0) {
    auto& valid = w.bindings.valid[static_cast<size_t>(d.offset)];
    valid = Valid{rest, kNoReg};
    run(whole, whole + 1);
    valid.reset();
  }
}

}  // namespace weft::lowering
