#include "lower/gpu/grid.h"

#include "tile/analysis/executions.h"
#include "tile/analysis/loads_ahead.h"
#include "tile/analysis/same_blocks.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <utility>

#include "lower/core/index_emission.h"
#include "lower/core/loops.h"
#include "lower/core/nests.h"
#include "lower/gpu/staged_loops.h"

namespace weft::lowering {

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

/// Binds dimensions [dim, last) of the loop to their digits of `item`; what is left of it, the
/// number within loops further inside, is given to `body`.
void bind_grid_dims(GpuWriter& w, const TileLoop& loop, size_t dim, size_t last, Reg item,
                    const std::function<void(Reg below)>& body) {
  if (dim == last) return body(item);
  const TileLoop::Dim& d = loop.dims[dim];
  const auto value = [&](int id) { return w.program.vars[static_cast<size_t>(id)].extent; };
  const int64_t begin = weft::evaluate(d.begin, value), end = weft::evaluate(d.end, value);
  const int64_t extent = std::max<int64_t>(end - begin, 0);
  const int64_t own = (extent + d.step - 1) / d.step;
  if (own == 0) return;
  int64_t inner = grid_items_below(w, loop, dim + 1);
  if (last < loop.dims.size()) inner /= grid_items_below(w, loop, last);
  const auto op = [&](ScalarOp o, Reg a, int64_t b) {
    return w.builder.apply(o, {a, w.builder.int_constant(b)}, DType::kI64);
  };
  const Reg t = own == 1 ? w.builder.int_constant(0) : op(ScalarOp::kDiv, item, inner);
  const Reg below = own == 1 ? item : op(ScalarOp::kRem, item, inner);
  const IndexExpr iteration = own == 1 ? IndexExpr(0) : add_kernel_var(w, t, {0, own - 1});
  const auto others = w.same_origins.find(d.origin);
  const auto bind_others = [&](const std::optional<IndexExpr>& origin) {
    if (others == w.same_origins.end()) return;
    for (const TileVarId other : others->second)
      w.bindings.bound[static_cast<size_t>(other)] = origin;
  };
  w.bindings.bound[static_cast<size_t>(d.origin)] = iteration * d.step + begin;
  bind_others(w.bindings.bound[static_cast<size_t>(d.origin)]);
  const bool of_cluster = loop.kind == TileLoop::Kind::kCluster || loop.by_cluster;
  if (of_cluster) {
    w.cluster_dims.push_back(
        {d.origin, begin, d.step, own, inner, iteration, add_kernel_var(w, kNoReg, {0, own - 1})});
  }
  if (extent % d.step == 0) {
    bind_grid_dims(w, loop, dim + 1, last, below, body);
  } else {
    auto& valid = w.bindings.valid[static_cast<size_t>(d.offset)];
    if (own == 1) {
      valid = Valid{extent, kNoReg};
    } else {
      const Reg left = w.builder.apply(
          ScalarOp::kSub, {w.builder.int_constant(extent), op(ScalarOp::kMul, t, d.step)},
          DType::kI64);
      int64_t divisor = 1;
      while (d.step % (divisor * 2) == 0 && extent % (divisor * 2) == 0) divisor *= 2;
      valid = Valid{0, left, divisor};
    }
    bind_grid_dims(w, loop, dim + 1, last, below, body);
    valid.reset();
  }
  if (of_cluster) w.cluster_dims.pop_back();
  w.bindings.bound[static_cast<size_t>(d.origin)].reset();
  bind_others(std::nullopt);
}

/// The block's own iteration of a loop `by cluster`; what it makes lies in its arena, where the
/// cluster reads it from here on.
void emit_part_of_cluster(GpuWriter& w, const TileLoop& loop, int32_t child) {
  const Reg rank = w.builder.apply(
      ScalarOp::kRem,
      {w.builder.position(KernelPosition::kBlock), w.builder.int_constant(w.kernel.cluster)},
      DType::kI64);
  w.path.push_back(child);
  bind_grid_dims(w, loop, 0, loop.dims.size(), rank, [&](Reg) {
    w.shared_dims.push_back(w.cluster_dims.back());
    for (size_t n = 0; n < loop.body.size(); ++n) {
      emit_node(w, loop.body[n], static_cast<int32_t>(n));
      w.bindings.made_ahead.insert(&loop.body[n].statement);
    }
  });
  w.path.pop_back();
}

void emit_gpu_grid_body(GpuWriter& w, const TileBody& body, Reg item) {
  for (size_t n = 0; n < body.size(); ++n) {
    const auto child = static_cast<int32_t>(n);
    const TileNode& node = body[n];
    if (node.kind == TileNode::Kind::kLoop && node.loop->kind != TileLoop::Kind::kSeq) {
      emit_grid_barrier_before(w, child);
      w.path.push_back(child);
      const TileLoop& inner = *node.loop;
      bind_grid_dims(w, inner, 0, inner.dims.size(), item,
                     [&](Reg below) { emit_gpu_grid_body(w, inner.body, below); });
      w.path.pop_back();
    } else {
      emit_node(w, node, child);
    }
  }
}

void emit_gpu_nest(GpuWriter& w, const TileNode& nest, Reg item) {
  w.registers.tiles.clear();
  w.registers.next.clear();
  if (nest.kind == TileNode::Kind::kLoop && nest.loop->kind != TileLoop::Kind::kSeq) {
    const TileLoop& loop = *nest.loop;
    bind_grid_dims(w, loop, 0, loop.dims.size(), item,
                   [&](Reg below) { emit_gpu_grid_body(w, loop.body, below); });
    return;
  }
  const std::vector<int32_t> outer = w.path;
  w.path.pop_back();
  emit_node(w, nest, outer.back());
  w.path = outer;
}

/// What an item is to what went ahead of its nest, which was the block's first item's.
void note_item(GpuWriter& w, Reg first, Reg item) {
  if (w.went_ahead.empty()) return;
  w.later_item = w.builder.apply(ScalarOp::kLt, {first, item}, DType::kBool);
}

/// One block's items of a nest, one after another. What does not change with the last dimensions of
/// the grid is made before the loop over these.
void emit_gpu_items(GpuWriter& w, const Nest& nest, Reg begin, Reg end) {
  const auto kept = kept_statements(structure_of(w.program), w.scopes);
  w.registers.tiles.clear();
  w.registers.next.clear();
  ++w.bindings.repetitions;
  if (kept.empty()) {
    w.builder.for_loop(begin, end, 1, {}, [&](Reg item, const std::vector<Reg>&) {
      w.path = nest.path;
      note_item(w, begin, item);
      emit_gpu_nest(w, *nest.node, item);
      w.later_item = kNoReg;
      return std::vector<Reg>{};
    });
    --w.bindings.repetitions;
    return;
  }
  const TileLoop& loop = *nest.node->loop;
  w.path = nest.path;
  size_t depth = 0;
  for (const auto& [statement, own] : kept) depth = std::max(depth, own);
  const auto make = [&](bool outermost) {
    for (size_t n = 0; n < loop.body.size(); ++n) {
      if (loop.body[n].kind == TileNode::Kind::kLoop && loop.body[n].loop->by_cluster) {
        if (outermost) emit_part_of_cluster(w, *loop.body[n].loop, static_cast<int32_t>(n));
        continue;
      }
      const TileStatement* statement = &loop.body[n].statement;
      const auto found = kept.find(statement);
      if (found == kept.end() || (found->second == 0) != outermost) continue;
      emit_node(w, loop.body[n], static_cast<int32_t>(n));
      w.bindings.made_ahead.insert(statement);
    }
  };
  const auto run_items = [&](Reg first, Reg last) {
    w.builder.for_loop(first, last, 1, {}, [&](Reg item, const std::vector<Reg>&) {
      const auto saved = w.registers.tiles;
      bind_grid_dims(w, loop, depth, loop.dims.size(), item,
                     [&](Reg below) { emit_gpu_grid_body(w, loop.body, below); });
      w.registers.tiles = saved;
      return std::vector<Reg>{};
    });
  };
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  make(true);
  if (depth == 0) {
    run_items(begin, end);
  } else {
    const int64_t below = grid_items_below(w, loop, depth);
    const Reg inner = w.builder.int_constant(below), zero = w.builder.int_constant(0);
    const Reg from = op(ScalarOp::kDiv, begin, inner);
    const Reg to =
        op(ScalarOp::kDiv, op(ScalarOp::kAdd, end, w.builder.int_constant(below - 1)), inner);
    w.builder.for_loop(from, to, 1, {}, [&](Reg t, const std::vector<Reg>&) {
      const auto saved = w.registers.tiles;
      bind_grid_dims(w, loop, 0, depth, t, [&](Reg) {
        make(false);
        const Reg first = op(ScalarOp::kMul, t, inner);
        run_items(op(ScalarOp::kMax, op(ScalarOp::kSub, begin, first), zero),
                  op(ScalarOp::kMin, op(ScalarOp::kSub, end, first), inner));
      });
      w.registers.tiles = saved;
      return std::vector<Reg>{};
    });
  }
  --w.bindings.repetitions;
}

}  // namespace

int64_t block_count(const GpuWriter& w) {
  bool bound = true;
  for (const int id : variables(w.program.blocks)) {
    bound &= w.program.vars[static_cast<size_t>(id)].extent > 0;
  }
  if (bound) {
    return std::max<int64_t>(1, weft::evaluate(w.program.blocks, [&](int id) {
                               return w.program.vars[static_cast<size_t>(id)].extent;
                             }));
  }
  int64_t most = 1;
  for (const std::vector<Nest>& nests : phases(w)) {
    int64_t items = 0;
    for (const Nest& nest : nests) items += grid_items(w, *nest.node);
    most = std::max(most, items);
  }
  return most;
}

Status check_one_iteration_a_block(const GpuWriter& w) {
  for (const std::vector<Nest>& nests : phases(w)) {
    int64_t items = 0;
    for (const Nest& nest : nests) items += grid_items(w, *nest.node);
    if (items == w.kernel.blocks) continue;
    const bool clusters = w.kernel.cluster > 1 && !w.program.one_cluster;
    if (clusters && items > w.kernel.blocks && !has_cluster_loop(*nests[0].node)) continue;
    if (clusters && items > w.kernel.blocks) {
      return unsupported(w.program.name + " has " + std::to_string(items) + " iterations on " +
                         std::to_string(w.kernel.blocks) + " blocks of clusters");
    }
    for (const Nest& nest : nests) {
      for (const BarrierPoint& barrier : w.scopes.barriers) {
        const bool inside = barrier.scope == Scope::kGrid &&
                            barrier.before.size() > nest.path.size() &&
                            std::equal(nest.path.begin(), nest.path.end(), barrier.before.begin());
        if (!inside) continue;
        return unsupported(w.program.name + " has a barrier inside a nest of " +
                           std::to_string(items) + " iterations on " +
                           std::to_string(w.kernel.blocks) + " blocks, which needs one for each");
      }
    }
  }
  return {};
}

namespace {

/// `emit(nest, number in it)` of that one of the nests that a phase's item belongs to.
void emit_at_item(GpuWriter& w, const std::vector<Nest>& nests, Reg item,
                  const std::function<void(const Nest&, Reg)>& emit) {
  int64_t first = 0;
  for (const Nest& nest : nests) {
    const int64_t count = grid_items(w, *nest.node);
    w.path = {nest.path.begin(), nest.path.end() - 1};
    const Reg local =
        w.builder.apply(ScalarOp::kSub, {item, w.builder.int_constant(first)}, DType::kI64);
    const auto body = [&] {
      emit(nest, local);
      return std::vector<Reg>{};
    };
    w.path.push_back(nest.path.back());
    if (nests.size() == 1) {
      body();
    } else {
      const Reg from =
          w.builder.apply(ScalarOp::kGe, {local, w.builder.int_constant(0)}, DType::kBool);
      const Reg to =
          w.builder.apply(ScalarOp::kLt, {local, w.builder.int_constant(count)}, DType::kBool);
      w.builder.if_then_else(w.builder.apply(ScalarOp::kAnd, {from, to}, DType::kBool), body);
    }
    first += count;
  }
}

/// Items [begin, end) of a phase, the block's own.
void emit_items(GpuWriter& w, const std::vector<Nest>& nests, int64_t items, Reg begin, Reg end) {
  const auto run_item = [&](Reg item) {
    emit_at_item(w, nests, item,
                 [&](const Nest& nest, Reg local) { emit_gpu_nest(w, *nest.node, local); });
  };
  if (nests.size() == 1 && (items > w.kernel.blocks || fills_by_cluster(*nests[0].node))) {
    emit_gpu_items(w, nests[0], begin, end);
  } else if (items == w.kernel.blocks) {
    run_item(begin);
  } else if (items < w.kernel.blocks) {
    w.builder.if_then_else(w.builder.apply(ScalarOp::kLt, {begin, end}, DType::kBool), [&] {
      run_item(begin);
      return std::vector<Reg>{};
    });
  } else {
    w.builder.for_loop(begin, end, 1, {}, [&](Reg item, const std::vector<Reg>&) {
      ++w.bindings.repetitions;
      note_item(w, begin, item);
      run_item(item);
      w.later_item = kNoReg;
      --w.bindings.repetitions;
      return std::vector<Reg>{};
    });
  }
}

int64_t items_of(const GpuWriter& w, const std::vector<Nest>& nests) {
  int64_t items = 0;
  for (const Nest& nest : nests) items += grid_items(w, *nest.node);
  return items;
}

/// The block's items of a phase inside a recurrence, as a launch shares those of a whole one.
std::pair<Reg, Reg> block_share(GpuWriter& w, int64_t items) {
  const Reg block = w.builder.position(KernelPosition::kBlock);
  const Reg count = w.builder.int_constant(items);
  const auto op = [&](ScalarOp o, Reg a, Reg b) { return w.builder.apply(o, {a, b}, DType::kI64); };
  if (items <= w.kernel.blocks) return {block, count};
  const Reg blocks = w.builder.int_constant(w.kernel.blocks);
  const auto first = [&](Reg b) {
    return op(ScalarOp::kDiv, op(ScalarOp::kMul, b, count), blocks);
  };
  return {first(block), first(op(ScalarOp::kAdd, block, w.builder.int_constant(1)))};
}

/// The first copies of the loops `ahead` in a body of loops of the grid.
void copy_ahead_of_body(GpuWriter& w, const TileBody& body, Reg item) {
  for (const TileNode& node : body) {
    if (node.kind != TileNode::Kind::kLoop) continue;
    const TileLoop& loop = *node.loop;
    if (loop.kind == TileLoop::Kind::kGrid) {
      bind_grid_dims(w, loop, 0, loop.dims.size(), item,
                     [&](Reg below) { copy_ahead_of_body(w, loop.body, below); });
    } else if (loop.ahead) {
      copy_ahead(w, loop);
    }
  }
}

/// In front of the barrier before a phase: what its blocks load ahead for their first item. Blocks
/// without one load nothing.
void emit_copies_ahead(GpuWriter& w, const std::vector<Nest>& nests) {
  const bool any = std::ranges::any_of(nests, [](const Nest& nest) {
    return nest.node->kind == TileNode::Kind::kLoop && has_loop_ahead(nest.node->loop->body);
  });
  if (!any) return;
  const int64_t items = items_of(w, nests);
  const auto [begin, end] = block_share(w, items);
  const auto copy = [&] {
    emit_at_item(w, nests, begin, [&](const Nest& nest, Reg local) {
      if (nest.node->kind != TileNode::Kind::kLoop) return;
      const TileLoop& loop = *nest.node->loop;
      if (loop.kind != TileLoop::Kind::kGrid || !has_loop_ahead(loop.body)) return;
      bind_grid_dims(w, loop, 0, loop.dims.size(), local,
                     [&](Reg below) { copy_ahead_of_body(w, loop.body, below); });
    });
    return std::vector<Reg>{};
  };
  if (items >= w.kernel.blocks) {
    copy();
  } else {
    w.builder.if_then_else(w.builder.apply(ScalarOp::kLt, {begin, end}, DType::kBool), copy);
  }
}

/// The recurrence whose step a phase is part of; null of nests that run once.
const TileLoop* recurrence_of(const GpuWriter& w, const std::vector<Nest>& nests) {
  const TileNode& top = w.program.body[static_cast<size_t>(nests[0].path[0])];
  const bool recurs = top.kind == TileNode::Kind::kLoop && is_recurrence(*top.loop);
  return recurs ? top.loop.get() : nullptr;
}

/// Nests that run side by side, and whether all blocks meet before them.
struct Phase {
  std::vector<Nest> nests;
  bool meets = true;
};

void meet(GpuWriter& w) {
  w.builder.barrier(w.kernel.blocks > 1 ? KernelBarrier::kGrid : KernelBarrier::kBlock);
}

void emit_phase(GpuWriter& w, const std::vector<Nest>& nests) {
  const int64_t items = items_of(w, nests);
  const auto [begin, end] = block_share(w, items);
  emit_items(w, nests, items, begin, end);
}

/// The phases of each step, one step after another, within a phase of the kernel.
void emit_steps(GpuWriter& w, const TileLoop& loop, std::span<const Phase> steps) {
  const TileLoop::Dim& dim = loop.dims[0];
  const int64_t trips = dim.end.constant();
  ++w.bindings.repetitions;
  w.builder.for_loop(w.builder.int_constant(0), w.builder.int_constant(trips), 1, {},
                     [&](Reg t, const std::vector<Reg>&) {
                       auto& bound = w.bindings.bound[static_cast<size_t>(dim.origin)];
                       bound = trips == 1 ? IndexExpr(0) : add_kernel_var(w, t, {0, trips - 1});
                       for (const Phase& phase : steps) {
                         if (phase.meets) meet(w);
                         emit_phase(w, phase.nests);
                       }
                       bound.reset();
                       return std::vector<Reg>{};
                     });
  --w.bindings.repetitions;
}

/// `before`: the nests in front of the loop, whose first barrier serves them, too.
void emit_recurrence(GpuWriter& w, const TileLoop& loop, const std::vector<Nest>& before,
                     std::span<const std::vector<Nest>> steps) {
  w.builder.begin_phase(w.kernel.blocks);
  if (!before.empty()) emit_phase(w, before);
  std::vector<Phase> phases;
  for (const std::vector<Nest>& nests : steps) phases.push_back({nests, true});
  emit_steps(w, loop, phases);
  w.builder.end_phase();
}

/// The phases of a program whose blocks keep values from nest to nest: nests that do begin at the
/// first block, and no block has more than one of their iterations.
std::vector<Phase> kept_phases(const GpuWriter& w) {
  std::vector<Phase> out;
  for (const std::vector<Nest>& nests : phases(w)) {
    out.push_back({});
    int64_t items = 0;
    bool keeps = false;
    for (const Nest& nest : nests) {
      const bool own = w.keeping.count(nest.path) != 0;
      const int64_t more = grid_items(w, *nest.node);
      const bool apart = own || (keeps && items + more > w.kernel.blocks);
      if (apart && !out.back().nests.empty()) {
        out.push_back({{}, false});
        items = 0;
        keeps = false;
      }
      out.back().nests.push_back(nest);
      items += more;
      keeps |= own;
    }
  }
  return out;
}

/// One phase of the kernel, in which shared memory stays as it is from nest to nest, and what is
/// loaded ahead of a barrier is there behind it.
void emit_kept_phases(GpuWriter& w) {
  w.builder.begin_phase(w.kernel.blocks);
  const std::vector<Phase> all = kept_phases(w);
  for (size_t p = 0; p < all.size();) {
    if (const TileLoop* loop = recurrence_of(w, all[p].nests)) {
      const size_t first = p;
      while (p < all.size() && recurrence_of(w, all[p].nests) == loop) ++p;
      emit_steps(w, *loop, std::span(all).subspan(first, p - first));
      continue;
    }
    if (p > 0 && all[p].meets) {
      emit_copies_ahead(w, all[p].nests);
      meet(w);
    }
    emit_phase(w, all[p].nests);
    ++p;
  }
  w.builder.end_phase();
}

/// By origin: those of other nests with the same value in all blocks.
std::map<TileVarId, std::vector<TileVarId>> same_origins_of(const TileStructure& structure,
                                                            const std::set<NestPath>& nests) {
  std::map<TileVarId, std::vector<TileVarId>> out;
  for (auto earlier = nests.begin(); earlier != nests.end(); ++earlier) {
    for (auto later = std::next(earlier); later != nests.end(); ++later) {
      const auto same = same_blocks(structure, *earlier, *later);
      if (!same) continue;
      for (const auto& [read, made] : *same) out[read].push_back(made);
    }
  }
  return out;
}

}  // namespace

void emit_gpu_phases(GpuWriter& w) {
  const TileStructure structure = structure_of(w.program);
  w.keeping = nests_of_kept(structure, w.scopes);
  w.same_origins = same_origins_of(structure, w.keeping);
  if (!w.keeping.empty() || has_loop_ahead(w.program.body)) return emit_kept_phases(w);
  const std::vector<std::vector<Nest>> all = phases(w);
  const auto recurrence = [&](size_t p) {
    return p < all.size() ? recurrence_of(w, all[p]) : nullptr;
  };
  for (size_t p = 0; p < all.size();) {
    const bool in_front = recurrence(p) == nullptr;
    if (const TileLoop* loop = recurrence(in_front ? p + 1 : p)) {
      const size_t first = in_front ? p + 1 : p;
      size_t end = first;
      while (end < all.size() && recurrence(end) == loop) ++end;
      emit_recurrence(w, *loop, in_front ? all[p] : std::vector<Nest>{},
                      std::span(all).subspan(first, end - first));
      p = end;
      continue;
    }
    const int64_t items = items_of(w, all[p]);
    const auto [begin, end] = w.builder.begin_phase(items);
    emit_items(w, all[p], items, begin, end);
    w.builder.end_phase();
    ++p;
  }
}

void emit_grid_barrier_before(GpuWriter& w, int32_t child) {
  if (w.path.empty()) return;
  std::vector<int32_t> here = w.path;
  here.push_back(child);
  for (const BarrierPoint& barrier : w.scopes.barriers) {
    if (barrier.scope != Scope::kGrid || barrier.before != here) continue;
    w.builder.barrier(KernelBarrier::kGrid);
  }
}

}  // namespace weft::lowering
