#include <algorithm>

#include "lower/lowering.h"
#include "tile/analysis/executions.h"

namespace weft::lowering {

/// The number of blocks that the program states, else one for each item of the largest phase.
int64_t Lowering::block_count() const {
  bool bound = true;
  for (const int id : variables(program_.blocks)) {
    bound &= program_.vars[static_cast<size_t>(id)].extent > 0;
  }
  if (bound) {
    return std::max<int64_t>(1, weft::evaluate(program_.blocks, [&](int id) {
                               return program_.vars[static_cast<size_t>(id)].extent;
                             }));
  }
  int64_t most = 1;
  for (const std::vector<Nest>& nests : phases()) {
    int64_t items = 0;
    for (const Nest& nest : nests) items += grid_items(*nest.node);
    most = std::max(most, items);
  }
  return most;
}

namespace {

bool has_cluster_loop(const TileNode& node) {
  if (node.kind != TileNode::Kind::kLoop) return false;
  return node.loop->kind == TileLoop::Kind::kCluster ||
         std::ranges::any_of(node.loop->body, has_cluster_loop);
}

bool fills_by_cluster(const TileNode& nest) {
  return nest.kind == TileNode::Kind::kLoop &&
         std::ranges::any_of(nest.loop->body, [](const TileNode& node) {
           return node.kind == TileNode::Kind::kLoop && node.loop->by_cluster;
         });
}

}  // namespace

/// Registers and shared memory hold one iteration of a nest across a barrier inside it. Blocks of a
/// cluster have the iterations of its loops, side by side.
Status Lowering::check_one_iteration_a_block() const {
  for (const std::vector<Nest>& nests : phases()) {
    int64_t items = 0;
    for (const Nest& nest : nests) items += grid_items(*nest.node);
    if (items == kernel_.blocks) continue;
    if (kernel_.cluster > 1 && items > kernel_.blocks && !has_cluster_loop(*nests[0].node))
      continue;
    if (kernel_.cluster > 1 && items > kernel_.blocks) {
      return unsupported(program_.name + " has " + std::to_string(items) + " iterations on " +
                         std::to_string(kernel_.blocks) + " blocks of clusters");
    }
    for (const Nest& nest : nests) {
      for (const BarrierPoint& barrier : scopes_.barriers) {
        const bool inside = barrier.scope == Scope::kGrid &&
                            barrier.before.size() > nest.path.size() &&
                            std::equal(nest.path.begin(), nest.path.end(), barrier.before.begin());
        if (!inside) continue;
        return unsupported(program_.name + " has a barrier inside a nest of " +
                           std::to_string(items) + " iterations on " +
                           std::to_string(kernel_.blocks) + " blocks, which needs one for each");
      }
    }
  }
  return {};
}

/// The items of the nests one after another in one list. Blocks of at most one item each run it
/// without a loop.
void Lowering::emit_gpu_phase(const std::vector<Nest>& nests) {
  int64_t items = 0;
  for (const Nest& nest : nests) items += grid_items(*nest.node);
  const auto [begin, end] = builder_.begin_phase(items);
  const auto run_item = [&](Reg item) {
    int64_t first = 0;
    for (const Nest& nest : nests) {
      const int64_t count = grid_items(*nest.node);
      path_ = {nest.path.begin(), nest.path.end() - 1};
      const Reg local =
          builder_.apply(ScalarOp::kSub, {item, builder_.int_constant(first)}, DType::kI64);
      const auto body = [&] {
        emit_gpu_nest(*nest.node, local);
        return std::vector<Reg>{};
      };
      path_.push_back(nest.path.back());
      if (nests.size() == 1) {
        body();
      } else {
        const Reg from =
            builder_.apply(ScalarOp::kGe, {local, builder_.int_constant(0)}, DType::kBool);
        const Reg to =
            builder_.apply(ScalarOp::kLt, {local, builder_.int_constant(count)}, DType::kBool);
        builder_.if_then_else(builder_.apply(ScalarOp::kAnd, {from, to}, DType::kBool), body);
      }
      first += count;
    }
  };
  if (nests.size() == 1 && (items > kernel_.blocks || fills_by_cluster(*nests[0].node))) {
    emit_gpu_items(nests[0], begin, end);
  } else if (items == kernel_.blocks) {
    run_item(begin);
  } else if (items < kernel_.blocks) {
    builder_.if_then_else(builder_.apply(ScalarOp::kLt, {begin, end}, DType::kBool), [&] {
      run_item(begin);
      return std::vector<Reg>{};
    });
  } else {
    builder_.for_loop(begin, end, 1, {}, [&](Reg item, const std::vector<Reg>&) {
      ++repetitions_;
      run_item(item);
      --repetitions_;
      return std::vector<Reg>{};
    });
  }
  builder_.end_phase();
}

/// One block's items of a nest, one after another. What does not change with the last dimensions of
/// the grid is made before the loop over these.
void Lowering::emit_gpu_items(const Nest& nest, Reg begin, Reg end) {
  const auto kept = kept_statements(structure_of(program_), scopes_);
  tiles_.clear();
  next_tiles_.clear();
  ++repetitions_;
  if (kept.empty()) {
    builder_.for_loop(begin, end, 1, {}, [&](Reg item, const std::vector<Reg>&) {
      path_ = nest.path;
      emit_gpu_nest(*nest.node, item);
      return std::vector<Reg>{};
    });
    --repetitions_;
    return;
  }
  const TileLoop& loop = *nest.node->loop;
  path_ = nest.path;
  size_t depth = 0;
  for (const auto& [statement, own] : kept) depth = std::max(depth, own);
  const auto make = [&](bool outermost) {
    for (size_t n = 0; n < loop.body.size(); ++n) {
      if (loop.body[n].kind == TileNode::Kind::kLoop && loop.body[n].loop->by_cluster) {
        if (outermost) emit_part_of_cluster(*loop.body[n].loop, static_cast<int32_t>(n));
        continue;
      }
      const TileStatement* statement = &loop.body[n].statement;
      const auto found = kept.find(statement);
      if (found == kept.end() || (found->second == 0) != outermost) continue;
      emit_node(loop.body[n], static_cast<int32_t>(n));
      prefetched_.insert(statement);
    }
  };
  const auto run_items = [&](Reg first, Reg last) {
    builder_.for_loop(first, last, 1, {}, [&](Reg item, const std::vector<Reg>&) {
      const auto saved = tiles_;
      bind_grid_dims(loop, depth, loop.dims.size(), item,
                     [&](Reg below) { emit_gpu_grid_body(loop.body, below); });
      tiles_ = saved;
      return std::vector<Reg>{};
    });
  };
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return builder_.apply(o, {a, b}, DType::kI64); };
  make(true);
  if (depth == 0) {
    run_items(begin, end);
  } else {
    const int64_t below = grid_items_below(loop, depth);
    const Reg inner = builder_.int_constant(below), zero = builder_.int_constant(0);
    const Reg from = op(ScalarOp::kDiv, begin, inner);
    const Reg to =
        op(ScalarOp::kDiv, op(ScalarOp::kAdd, end, builder_.int_constant(below - 1)), inner);
    builder_.for_loop(from, to, 1, {}, [&](Reg t, const std::vector<Reg>&) {
      const auto saved = tiles_;
      bind_grid_dims(loop, 0, depth, t, [&](Reg) {
        make(false);
        const Reg first = op(ScalarOp::kMul, t, inner);
        run_items(op(ScalarOp::kMax, op(ScalarOp::kSub, begin, first), zero),
                  op(ScalarOp::kMin, op(ScalarOp::kSub, end, first), inner));
      });
      tiles_ = saved;
      return std::vector<Reg>{};
    });
  }
  --repetitions_;
}

/// The block's own iteration of a loop `by cluster`; what it makes lies in its arena, where the
/// cluster reads it from here on.
void Lowering::emit_part_of_cluster(const TileLoop& loop, int32_t child) {
  const Reg rank = builder_.apply(
      ScalarOp::kRem,
      {builder_.position(KernelPosition::kBlock), builder_.int_constant(kernel_.cluster)},
      DType::kI64);
  path_.push_back(child);
  bind_grid_dims(loop, 0, loop.dims.size(), rank, [&](Reg) {
    shared_dims_.push_back(cluster_dims_.back());
    for (size_t n = 0; n < loop.body.size(); ++n) {
      emit_node(loop.body[n], static_cast<int32_t>(n));
      prefetched_.insert(&loop.body[n].statement);
    }
  });
  path_.pop_back();
}

void Lowering::emit_gpu_nest(const TileNode& nest, Reg item) {
  tiles_.clear();
  next_tiles_.clear();
  if (nest.kind == TileNode::Kind::kLoop && nest.loop->kind != TileLoop::Kind::kSeq) {
    const TileLoop& loop = *nest.loop;
    bind_grid_dims(loop, 0, loop.dims.size(), item,
                   [&](Reg below) { emit_gpu_grid_body(loop.body, below); });
    return;
  }
  const std::vector<int32_t> outer = path_;
  path_.pop_back();
  emit_node(nest, outer.back());
  path_ = outer;
}

/// The iteration of each dimension is a digit of the item's number, the last one fastest.
void Lowering::bind_grid_dims(const TileLoop& loop, size_t dim, size_t last, Reg item,
                              const std::function<void(Reg below)>& body) {
  if (dim == last) return body(item);
  const TileLoop::Dim& d = loop.dims[dim];
  const auto value = [&](int id) { return program_.vars[static_cast<size_t>(id)].extent; };
  const int64_t begin = weft::evaluate(d.begin, value), end = weft::evaluate(d.end, value);
  const int64_t extent = std::max<int64_t>(end - begin, 0);
  const int64_t own = (extent + d.step - 1) / d.step;
  if (own == 0) return;
  int64_t inner = grid_items_below(loop, dim + 1);
  if (last < loop.dims.size()) inner /= grid_items_below(loop, last);
  const auto op = [&](ScalarOp o, Reg a, int64_t b) {
    return builder_.apply(o, {a, builder_.int_constant(b)}, DType::kI64);
  };
  const Reg t = own == 1 ? builder_.int_constant(0) : op(ScalarOp::kDiv, item, inner);
  const Reg below = own == 1 ? item : op(ScalarOp::kRem, item, inner);
  const IndexExpr iteration = own == 1 ? IndexExpr(0) : add_kernel_var(t, {0, own - 1});
  bound_[static_cast<size_t>(d.origin)] = iteration * d.step + begin;
  const bool of_cluster = loop.kind == TileLoop::Kind::kCluster || loop.by_cluster;
  if (of_cluster) {
    cluster_dims_.push_back(
        {d.origin, begin, d.step, own, inner, iteration, add_kernel_var(kNoReg, {0, own - 1})});
  }
  if (extent % d.step == 0) {
    bind_grid_dims(loop, dim + 1, last, below, body);
  } else {
    auto& valid = valid_[static_cast<size_t>(d.offset)];
    if (own == 1) {
      valid = Valid{extent, kNoReg};
    } else {
      const Reg left = builder_.apply(
          ScalarOp::kSub, {builder_.int_constant(extent), op(ScalarOp::kMul, t, d.step)},
          DType::kI64);
      int64_t divisor = 1;
      while (d.step % (divisor * 2) == 0 && extent % (divisor * 2) == 0) divisor *= 2;
      valid = Valid{0, left, divisor};
    }
    bind_grid_dims(loop, dim + 1, last, below, body);
    valid.reset();
  }
  if (of_cluster) cluster_dims_.pop_back();
  bound_[static_cast<size_t>(d.origin)].reset();
}

void Lowering::emit_gpu_grid_body(const TileBody& body, Reg item) {
  for (size_t n = 0; n < body.size(); ++n) {
    const auto child = static_cast<int32_t>(n);
    const TileNode& node = body[n];
    if (node.kind == TileNode::Kind::kLoop && node.loop->kind != TileLoop::Kind::kSeq) {
      emit_grid_barrier_before(child);
      path_.push_back(child);
      const TileLoop& inner = *node.loop;
      bind_grid_dims(inner, 0, inner.dims.size(), item,
                     [&](Reg below) { emit_gpu_grid_body(inner.body, below); });
      path_.pop_back();
    } else {
      emit_node(node, child);
    }
  }
}

/// A barrier of the grid before a child of the body at hand: what registers and shared memory hold
/// survives it, as the block goes through one item only.
void Lowering::emit_grid_barrier_before(int32_t child) {
  if (path_.empty()) return;
  std::vector<int32_t> here = path_;
  here.push_back(child);
  for (const BarrierPoint& barrier : scopes_.barriers) {
    if (barrier.scope != Scope::kGrid || barrier.before != here) continue;
    builder_.barrier(KernelBarrier::kGrid);
  }
}

}  // namespace weft::lowering
