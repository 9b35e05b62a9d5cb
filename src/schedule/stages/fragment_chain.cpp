#include "schedule/stages/fragment_chain.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "expr/body_uses.h"
#include "expr/products/widen_halves.h"
#include "fmt/format.h"
#include "schedule/gpu/matrix_tile.h"
#include "schedule/gpu/product_factor.h"
#include "schedule/stages/fragment_writer.h"
#include "schedule/writer/best_positions.h"
#include "schedule/writer/statements.h"
#include "schedule/writer/tile_builder.h"
#include "support/rounding.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/check/verify_tile_program.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr int64_t kWholeUnits = 16;  ///< of a depth, and of columns on plain cores

}  // namespace

TileSymbolId FragmentWriter::value(const std::string& base, DType type, TileSymbol::Kind kind) {
  TileSymbol symbol;
  symbol.name = names_.unique(KernelNames::identifier(base));
  symbol.kind = kind;
  symbol.type = type;
  return program_.add_symbol(std::move(symbol));
}

TileSymbolId FragmentWriter::parameter(TensorId tensor, TileSymbol::Kind kind) {
  if (const auto known = symbols_.find(tensor); known != symbols_.end()) return known->second;
  const Tensor& of = space_.program().tensors[static_cast<size_t>(tensor)];
  const TileSymbolId id = value(of.name, of.type.dtype, kind);
  TileSymbol& symbol = program_.symbols[static_cast<size_t>(id)];
  for (const int64_t e : of.type.shape) symbol.shape.emplace_back(e);
  symbol.layout = of.layout;
  program_.parameters.push_back(id);
  parameters_.push_back(tensor);
  return symbols_[tensor] = id;
}

Status FragmentWriter::check_choice() const {
  constexpr int64_t kMostWarps = 32, kMostStages = 8, kMostDepth = 1 << 16;
  const auto power = [](int64_t n) {
    return n > 0 && std::has_single_bit(static_cast<uint64_t>(n));
  };
  if (power(choice_.warps) && choice_.warps <= kMostWarps && choice_.stages >= 1 &&
      choice_.stages <= kMostStages && choice_.depth >= 0 && choice_.depth <= kMostDepth &&
      choice_.depth % kWholeUnits == 0)
    return {};
  return invalid_input("fragments of no such warps, stages or depth");
}

void FragmentWriter::make_carries() {
  for (const BlockSpace::Carry& c : space_.carries()) {
    const TensorId tensor = space_.expr(c.after).output;
    const DType type = space_.program().tensors[static_cast<size_t>(tensor)].type.dtype;
    carries_.push_back(carried(value(space_.name_of(c.after), type, TileSymbol::Kind::kCarry),
                               indices_of(c.after), scalar_constant(c.first), {}));
    if (c.beyond) add_unreached(c, &carries_.back());
  }
}

/// A sum begins with what its terms add that no step goes over: nothing, or NaN. Threads share what
/// is out of reach as an access of each takes it, and add up what they found.
///     seq n in … carry g[.n,e] = 0 { g'[.n,e] = g[.n,e] + 0 * x[n,e] };  y = sum[nn] g[nn,e]
void FragmentWriter::add_unreached(const BlockSpace::Carry& c, TileCarry* carry) {
  for (const TileLoop::Dim& dim : boxes_.out_of_reach()) {
    if (dim.begin == dim.end) continue;
    TileLoop loop;
    loop.dims.push_back(dim);
    TileLoop::Dim& n = loop.dims.back();
    const std::string name = names_.unique("n");
    n.origin = program_.add_var(name, TileVar::Kind::kOrigin, 0);
    n.step = boxes_.steps().step;
    n.offset = program_.add_var(name, TileVar::Kind::kOffset, n.step);
    const int axes = space_.expr(c.after).output_rank();
    const ScalarRef own = translated_at(c.beyond, [&](int v) {
      return v < axes ? box_var(c.after, v).index : program_.index_of(n);
    });
    const ScalarRef zero = scalar_constant(float_value(carry->type, 0));
    // Along what lies together in memory first.
    ThreadTile threads(choice_.warps);
    std::vector<IndexExpr> box{IndexExpr::var(n.offset)}, columns;
    Place place, behind;
    for (int v = axes - 1; v >= 0; --v) {
      const BoxVar& axis = box_var(c.after, v);
      if (axis.var < 0 || !body_uses(own, axis.var)) continue;
      const int64_t width = columns.empty() ? std::gcd(axis.full, kAccessElements) : 1;
      place.axes.push_back({axis.var, threads.add(axis.extent, width, 32, choice_.warps, 0)});
      columns.insert(columns.begin(), axis.index);
    }
    box.insert(box.end(), columns.begin(), columns.end());
    behind = place;
    const TileVarId all = program_.add_var(names_.unique("nn"), TileVar::Kind::kAxis, n.step);
    const std::vector<Place::Digit> down = threads.add(n.step, 1, 32, choice_.warps, 0);
    if (!down.empty()) {
      place.axes.push_back({n.offset, down});
      behind.axes.push_back({all, down});
    }
    const std::string of = space_.name_of(c.after) + "_unreached";
    const TileSymbolId sum = value(of, carry->type, TileSymbol::Kind::kCarry);
    loop.carries.push_back(carried(sum, box, zero, place));
    const ScalarRef term = scalar_apply(ScalarOp::kMul, {zero, own}, carry->type);
    loop.body.push_back(TileNode::of(assign_next(
        sum, box,
        scalar_apply(ScalarOp::kAdd, {scalar_read(sum, carry->type, box), term}, carry->type),
        place)));
    TileBody& body = bodies_[kBefore];
    body.push_back(TileNode::of(std::move(loop)));
    box[0] = IndexExpr::var(all);
    const TileSymbolId total = value(of, carry->type);
    body.push_back(TileNode::of(assign_reduced(total, columns, Combiner::kSum, {all},
                                               scalar_read(sum, carry->type, box), behind)));
    // Threads take it where the products add to it.
    for (int v = 0; v < axes; ++v) {
      const BoxVar& axis = box_var(c.after, v);
      if (axis.var >= 0 && axis.var != boxes_.rows().var)
        carry->place = fragments(boxes_.rows(), axis, on_units());
    }
    const TileSymbolId taken = value(of, carry->type);
    body.push_back(TileNode::of(
        assign(taken, columns, scalar_read(total, carry->type, columns), carry->place)));
    const ScalarRef found = scalar_read(taken, carry->type, columns);
    const bool is_first = carry->initial->kind == Scalar::Kind::kConstant;
    carry->initial =
        is_first ? found : scalar_apply(ScalarOp::kAdd, {carry->initial, found}, carry->type);
  }
}

TileSymbolId FragmentWriter::carry_of(TensorId tensor) const {
  for (size_t c = 0; c < carries_.size(); ++c) {
    const BlockSpace::Carry& carry = space_.carries()[c];
    if (tensor == carry.before || tensor == space_.expr(carry.after).output)
      return carries_[c].target.symbol;
  }
  return -1;
}

/// What member `p` computes with, in terms of the program.
ScalarRef FragmentWriter::translated(int p, const ScalarRef& s) {
  return translated_at(s, [&](int var) { return box_var(p, var).index; });
}

ScalarRef FragmentWriter::translated_at(const ScalarRef& s,
                                        const std::function<IndexExpr(int var)>& index_of) {
  return rewrite(
      s, [&](int var) { return var < kRuntimeIndexBase ? index_of(var) : IndexExpr::var(var); },
      [&](const ScalarRef& read) -> ScalarRef {
        auto copy = std::make_shared<Scalar>(*read);
        const auto tensor = static_cast<TensorId>(read->symbol);
        const int producer = space_.producer(tensor);
        if (const TileSymbolId carry = carry_of(tensor); carry >= 0) {
          copy->symbol = carry;
          copy->next = writing_ == kStep && !space_.is_carry(tensor);
        } else if (const auto part = parts_.find(tensor); part != parts_.end()) {
          copy->symbol = part->second;
        } else {
          copy->symbol =
              producer >= 0 ? values_.at(producer) : parameter(tensor, TileSymbol::Kind::kInput);
        }
        return copy;
      });
}

/// Whether something of it is made anew in each step.
bool FragmentWriter::changes_with_steps(int p, const ScalarRef& s) const {
  const TileLoop::Dim& loop = boxes_.steps();
  bool changes = false;
  const auto uses_step = [&](const IndexExpr& e) {
    for (const int v : variables(e)) {
      if (v >= kRuntimeIndexBase) continue;
      changes |= uses_var(box_var(p, v).index, loop.origin);
    }
  };
  visit(s, [&](const Scalar& node) {
    if (node.kind == Scalar::Kind::kIndex) uses_step(node.index);
    if (node.kind != Scalar::Kind::kRead) return;
    for (const IndexExpr& e : node.indices) uses_step(e);
    const int producer = space_.producer(static_cast<TensorId>(node.symbol));
    changes |= carry_of(static_cast<TensorId>(node.symbol)) >= 0 ||
               (producer >= 0 && part_of(producer) == kStep);
  });
  return changes;
}

Status FragmentWriter::write(int p) {
  writing_ = part_of(p);
  TileBody& body = bodies_[static_cast<size_t>(writing_)];
  const TensorExpr& e = space_.expr(p);
  if (e.is_contraction) return write_product(p, &body);
  if (e.reduce_extents.empty()) {
    keep(p, translated(p, e.body), &body);
    return {};
  }
  WEFT_ASSIGN_OR_RETURN(const ScalarRef value, reduced(p, &body));
  keep(p, value, &body);
  return {};
}

Result<ScalarRef> FragmentWriter::reduced(int p, TileBody* body) {
  const TensorExpr& e = space_.expr(p);
  if (!keeps_position(e) && tile_combiner(e.combiner) == TileCombiner::kNone)
    return unsupported(space_.name_of(p) + " has no form for the threads of a block");
  std::vector<TileVarId> over;
  for (int v = e.output_rank(); v < e.axis_count(); ++v) {
    if (box_var(p, v).var >= 0) over.push_back(box_var(p, v).var);
  }
  if (keeps_position(e)) return position_of(p, over, body);
  const ScalarRef terms = scalar_convert(translated(p, e.body), e.accumulator);
  if (over.empty()) return terms;
  const TileSymbolId made = value(space_.name_of(p) + "_r", e.accumulator);
  body->push_back(TileNode::of(
      assign_reduced(made, indices_of(p), e.combiner, std::move(over), terms, joined_place(p))));
  return scalar_read(made, e.accumulator, indices_of(p));
}

/// The best value of a position's terms: the member that is carried beside it has it already.
ScalarRef FragmentWriter::best_value(int p, const std::vector<TileVarId>& over, TileBody* body) {
  const TensorExpr& e = space_.expr(p);
  for (int q = 0; q < p; ++q) {
    const TensorExpr& other = space_.expr(q);
    const bool alike = !other.is_contraction && other.combiner == best_of(e) &&
                       other.extents == e.extents && other.reduce_extents == e.reduce_extents &&
                       part_of(q) == part_of(p) && equal(other.body, e.body);
    const auto made = values_.find(q);
    if (!alike || made == values_.end()) continue;
    const DType type = program_.symbols[static_cast<size_t>(made->second)].type;
    if (type == e.body->type) return scalar_read(made->second, type, indices_of(p));
  }
  const TileSymbolId made = value(space_.name_of(p) + "_m", e.body->type);
  body->push_back(TileNode::of(assign_reduced(made, indices_of(p), best_of(e), over,
                                              translated(p, e.body), joined_place(p))));
  return scalar_read(made, e.body->type, indices_of(p));
}

/// The position of the best of a row: of those that hold it the first, or the last.
///     i[m] = min[n] (t[m,n] == b[m] ? n : none)
ScalarRef FragmentWriter::position_of(int p, const std::vector<TileVarId>& over, TileBody* body) {
  const TensorExpr& e = space_.expr(p);
  const BoxVar& along = box_var(p, e.output_rank());
  const DType type = along.full <= std::numeric_limits<int32_t>::max() ? DType::kI32 : DType::kI64;
  const ScalarRef here = scalar_index(along.index, type);
  if (over.empty()) return here;
  const ScalarRef same = same_value(translated(p, e.body), best_value(p, over, body)),
                  none = scalar_constant(combiner_identity(pick_of(e), type));
  const TileSymbolId made = value(space_.name_of(p) + "_r", type);
  body->push_back(TileNode::of(
      assign_reduced(made, indices_of(p), pick_of(e), over,
                     scalar_apply(ScalarOp::kSelect, {same, here, none}, type), joined_place(p))));
  return scalar_read(made, type, indices_of(p));
}

/// What member `p` makes: a value for others, the next value of a carry, an output.
void FragmentWriter::keep(int p, const ScalarRef& made, TileBody* body) {
  const TensorId tensor = space_.expr(p).output;
  const DType type = space_.program().tensors[static_cast<size_t>(tensor)].type.dtype;
  const ScalarRef result = scalar_convert(made, type);
  if (const TileSymbolId carry = carry_of(tensor); carry >= 0) {
    body->push_back(TileNode::of(assign_next(carry, indices_of(p), result, {})));
    return;
  }
  const TileSymbolId kept = values_[p] = value(space_.name_of(p) + "_v", type);
  Place place = space_.over_parts(p) < space_.expr(p).output_rank() ? joined_place(p) : Place{};
  body->push_back(TileNode::of(assign(kept, indices_of(p), result, std::move(place))));
  if (!space_.is_output(p)) return;
  body->push_back(TileNode::of(assign(parameter(tensor, TileSymbol::Kind::kOutput), indices_of(p),
                                      scalar_read(kept, type, indices_of(p)), {})));
}

/// How rows and columns lie on a block. Columns `apart`: neighbours in neighbouring lanes.
Place FragmentWriter::fragments(const BoxVar& rows, const BoxVar& columns, bool units,
                                bool apart) const {
  using Digit = Place::Digit;
  const auto reg = [](int64_t n) { return Digit{PlaceLevel::kReg, n}; };
  const auto lanes = [](int64_t n) { return Digit{PlaceLevel::kLane, n}; };
  const auto vec = [](int64_t n) { return Digit{PlaceLevel::kVec, n}; };
  const Digit warps_down{PlaceLevel::kWarp, warps_.down},
      warps_across{PlaceLevel::kWarp, warps_.across};
  const int64_t down = units ? kUnitColumns : kCoreRows, across = 32 / down;
  const int64_t columns_each = columns.extent / warps_.across;
  const int64_t width = apart ? 1 : units || columns_each % kCoreColumns != 0 ? 2 : 4;
  Place out{{{rows.var, {warps_down, reg(rows.extent / warps_.down / down), lanes(down)}},
             {columns.var, {reg(columns_each / (across * width)), lanes(across)}}}};
  if (!apart) out.axes[1].digits.push_back(vec(width));
  if (warps_.across > 1) out.axes[1].digits.insert(out.axes[1].digits.begin(), warps_across);
  return out;
}

/// Whether all products are those of units.
bool FragmentWriter::on_units() const {
  if (target_.reduced_float32) return true;
  for (int p = 0; p < space_.size(); ++p) {
    if (!space_.expr(p).is_contraction || space_.expr(p).body->op != ScalarOp::kMul) continue;
    return byte_size(in_narrowest_type(space_.expr(p).body->operands[0])->type) == 2;
  }
  return false;
}

Result<FragmentFactor> FragmentWriter::factor(int p, const ScalarRef& s, int across, int depth) {
  FragmentFactor out;
  out.across = box_var(p, across);
  out.depth = box_var(p, depth);
  out.of_step = changes_with_steps(p, s);
  out.value = translated(p, s);
  const auto producer =
      s->kind == Scalar::Kind::kRead ? space_.producer(static_cast<TensorId>(s->symbol)) : -1;
  const auto holds = [&](const BoxVar& v) {
    return std::ranges::find(out.value->indices, v.index) != out.value->indices.end();
  };
  out.of_inputs = true;
  visit(s, [&](const Scalar& node) {
    if (node.kind != Scalar::Kind::kRead) return;
    const auto tensor = static_cast<TensorId>(node.symbol);
    out.of_inputs &= space_.producer(tensor) < 0 && carry_of(tensor) < 0;
  });
  out.is_value = producer >= 0 && values_.contains(producer) && holds(out.across) &&
                 holds(out.depth) && s->operands.empty() && !s->fill;
  return out;
}

/// The coordinates of a factor's tile, as they lie in shared memory.
std::vector<IndexExpr> FragmentWriter::tile_indices(const FragmentFactor& f,
                                                    const IndexExpr& k) const {
  if (f.is_value) return f.value->indices;
  return f.depth_last ? std::vector<IndexExpr>{f.across.index, k}
                      : std::vector<IndexExpr>{k, f.across.index};
}

/// A tile of a factor in shared memory, or in the registers that multiply it. Rows of the tile run
/// along what lies together in memory, where the units take them so. Plain cores take columns of
/// the right factor as well whose depth lies together, a column a lane (a step's depth but for what
/// the steps carry, which lies one way for all products).
void FragmentWriter::load(const std::string& base, bool in_block, bool units, bool left,
                          FragmentFactor* f, TileBody* body) {
  const DType type = f->value->type;
  const int64_t most = kAccessBytes / byte_size(type);
  const auto width = [&](const BoxVar& along) {
    return access_width(
        program_, f->value, along.var, std::min(most, along.extent), along.full,
        [&](TileVarId id) { return id == depth_loop_ ? choice_.depth : boxes_.unit_of(id); });
  };
  // What members made lies in registers.
  const int64_t deep = f->of_inputs ? width(f->depth) : 1,
                wide = f->of_inputs ? width(f->across) : 1;
  // Where no access takes several, lanes at least go along what lies together.
  const auto together = [&](const BoxVar& along) {
    return f->of_inputs && along.var >= 0 && lies_together(program_, f->value, along.var);
  };
  if (units || left) {
    const bool across = deep < wide || (deep == wide && !together(f->depth) && together(f->across));
    f->depth_last = !across || (units && byte_size(type) != 2);
  } else {
    const bool depth = deep > wide || (deep == wide && together(f->depth) && !together(f->across));
    f->depth_last = depth && f->depth.var != boxes_.steps().offset;
  }
  f->tile = value(base, type);
  TileStatement st = assign(f->tile, tile_indices(*f, f->depth.index), f->value, {});
  if (in_block) st.demand = Scope::kBlock;
  if (in_block && f->of_inputs) {
    ThreadTile threads(choice_.warps);
    const BoxVar &inner = f->depth_last ? f->depth : f->across,
                 &outer = f->depth_last ? f->across : f->depth;
    // Lanes share the accesses evenly where that leaves few enough rows: then none is masked.
    constexpr int64_t kLeastLanes = 4;
    const int64_t each = f->depth_last ? deep : wide, accesses = ceil_div(inner.extent, each);
    const int64_t even = accesses & -accesses;
    const bool shared_evenly = even >= kLeastLanes && inner.extent % each == 0;
    std::vector<Place::Digit> fast =
        threads.add(inner.extent, each, shared_evenly ? std::min<int64_t>(even, 32) : 32,
                    shared_evenly ? std::max<int64_t>(even / 32, 1) : choice_.warps, 0);
    std::vector<Place::Digit> slow = threads.add(outer.extent, 1, 32, choice_.warps, 0);
    if (slow.empty()) slow.push_back({PlaceLevel::kReg, 1});
    st.place.axes = {{outer.var, std::move(slow)}, {inner.var, std::move(fast)}};
  }
  body->push_back(TileNode::of(std::move(st)));
}

/// sum[rows, columns] = left x right, added to `before`, of tiles that are there.
void FragmentWriter::multiply_tiles(const FragmentProduct& of, const ScalarRef& before,
                                    TileBody* body) {
  const FragmentFactor &left = of.left, &right = of.right;
  const DType type = left.value->type;
  const auto read = [&](const FragmentFactor& f, const IndexExpr& k) {
    return scalar_convert(scalar_read(f.tile, type, tile_indices(f, k)), DType::kF32);
  };
  const Place place = fragments(left.across, right.across, of.units, !of.units && right.depth_last);
  if (of.units) {
    TileStatement st = assign_reduced(
        of.sum, of.indices, Combiner::kSum, {left.depth.var},
        scalar_apply(ScalarOp::kMul, {read(left, left.depth.index), read(right, right.depth.index)},
                     DType::kF32),
        place);
    st.unit = byte_size(type) == 2 ? "mma_m16n8k16" : "mma_m16n8k8";
    body->push_back(TileNode::of(std::move(st)));
    return;
  }
  constexpr int64_t kUnrolled = 16;
  TileLoop loop;
  TileLoop::Dim q;
  q.origin = program_.add_var(names_.unique("q"), TileVar::Kind::kOrigin, 0);
  q.begin = 0;
  q.end = left.depth.extent;
  const IndexExpr first = left.depth.index - IndexExpr::var(left.depth.var);
  if (left.depth.full % left.depth.extent != 0)
    q.end = min(IndexExpr(left.depth.extent), IndexExpr(left.depth.full) - first);
  q.unroll = left.depth.extent > kUnrolled ? kUnrolled : 0;
  loop.dims.push_back(q);
  const TileSymbolId part = value("part", DType::kF32, TileSymbol::Kind::kCarry);
  loop.carries.push_back(carried(part, of.indices, before, place));
  const IndexExpr at = first + IndexExpr::var(q.origin);
  const ScalarRef sum = scalar_read(part, DType::kF32, of.indices);
  const ScalarRef more =
      scalar_apply(ScalarOp::kMul, {read(left, at), read(right, at)}, DType::kF32);
  loop.body.push_back(TileNode::of(assign_next(
      part, of.indices, scalar_apply(ScalarOp::kAdd, {sum, more}, DType::kF32), place)));
  body->push_back(TileNode::of(std::move(loop)));
  body->push_back(TileNode::of(assign(of.sum, of.indices, sum, place)));
}

/// seq k step depth carry s[rows, columns] { tiles of both factors; s' = s + left x right }
void FragmentWriter::multiply_in_steps(FragmentProduct of, TileBody* body) {
  const int64_t full = of.left.depth.full;
  const BoxVar whole = of.left.depth;
  TileLoop loop;
  loop.stages = choice_.stages;
  TileLoop::Dim k;
  const std::string name = names_.unique("k");
  k.step = choice_.depth;
  k.origin = program_.add_var(name, TileVar::Kind::kOrigin, 0);
  k.offset = program_.add_var(name, TileVar::Kind::kOffset, k.step);
  k.begin = 0;
  k.end = full;
  depth_loop_ = k.origin;
  loop.dims.push_back(k);
  const BoxVar step{program_.index_of(k), k.offset, k.step, full};
  const auto in_step = [&](FragmentFactor* f) {
    f->value = rewrite(f->value,
                       [&](int id) { return id == whole.var ? step.index : IndexExpr::var(id); });
    f->depth = step;
  };
  const bool kept = of.left.tile >= 0;
  for (FragmentFactor* f : {&of.left, &of.right}) in_step(f);
  if (!kept) load("A", true, of.units, true, &of.left, &loop.body);
  load("B", true, of.units, false, &of.right, &loop.body);
  const Place place =
      fragments(of.left.across, of.right.across, of.units, !of.units && of.right.depth_last);
  const TileSymbolId total = value("sum", DType::kF32, TileSymbol::Kind::kCarry);
  const ScalarRef before = scalar_read(total, DType::kF32, of.indices);
  loop.carries.push_back(
      carried(total, of.indices, scalar_constant(float_value(DType::kF32, 0)), place));
  FragmentProduct step_of = of;
  step_of.sum = value("part", DType::kF32);
  multiply_tiles(step_of, before, &loop.body);
  const ScalarRef made = scalar_read(step_of.sum, DType::kF32, of.indices);
  loop.body.push_back(TileNode::of(assign_next(
      total, of.indices,
      of.units ? scalar_apply(ScalarOp::kAdd, {before, made}, DType::kF32) : made, place)));
  body->push_back(TileNode::of(std::move(loop)));
  body->push_back(TileNode::of(assign(of.sum, of.indices, before, place)));
}

Result<FragmentProduct> FragmentWriter::product_of(int p) {
  const TensorExpr& e = space_.expr(p);
  const std::string& name = space_.name_of(p);
  if (e.combiner != Combiner::kSum || e.accumulator != DType::kF32 ||
      e.body->kind != Scalar::Kind::kApply || e.body->op != ScalarOp::kMul ||
      e.body->type != DType::kF32)
    return unsupported(name + " is no product of two matrices");
  std::array<ScalarRef, 2> factors = {in_narrowest_type(e.body->operands[0]),
                                      in_narrowest_type(e.body->operands[1])};
  std::array<int, 2> across = {-1, -1};
  int depth = -1, depths = 0;
  for (int v = 0; v < e.axis_count(); ++v) {
    if (box_var(p, v).var < 0) continue;
    const bool first = body_uses(factors[0], v), second = body_uses(factors[1], v);
    if (v >= e.output_rank()) {
      if (!first || !second) return unsupported(name + " has a factor of the whole sum");
      depth = v, ++depths;
    } else {
      int& axis = across[first ? 0 : 1];
      if (first == second || axis >= 0)
        return unsupported(name + " has more than rows and columns in a block");
      axis = v;
    }
  }
  if (across[0] < 0 || across[1] < 0 || depths != 1)
    return unsupported(name + " lacks rows, columns or one depth");
  if (box_var(p, across[1]).var == boxes_.rows().var) {
    std::swap(across[0], across[1]);
    std::swap(factors[0], factors[1]);
  }
  if (box_var(p, across[0]).var != boxes_.rows().var)
    return unsupported(name + " does not have the rows of the chain");
  const DType type = factors[0]->type;
  if (factors[1]->type != type || !(is_half(type) || type == DType::kF32))
    return unsupported("no matrix unit takes the operands of " + name);
  FragmentProduct out;
  out.units = byte_size(type) == 2 || target_.reduced_float32;
  WEFT_ASSIGN_OR_RETURN(out.left, factor(p, factors[0], across[0], depth));
  WEFT_ASSIGN_OR_RETURN(out.right, factor(p, factors[1], across[1], depth));
  out.indices = indices_of(p);
  const int64_t least = (out.units ? kUnitRows : kCoreRows) * warps_.down;
  const int64_t least_across = warps_.across * (out.units ? kUnitColumns : kWholeUnits);
  if (out.left.across.extent % least != 0 || out.right.across.extent % least_across != 0)
    return invalid_input(fmt::format("{} rows and {} columns are not shared by {} warps",
                                     out.left.across.extent, out.right.across.extent,
                                     choice_.warps));
  return out;
}

Status FragmentWriter::write_product(int p, TileBody* body) {
  WEFT_ASSIGN_OR_RETURN(FragmentProduct product, product_of(p));
  FragmentFactor &left = product.left, &right = product.right;
  // What does not change is loaded before the steps, of a product beside them where that stands.
  const auto loads = [&](const FragmentFactor& f) {
    return f.of_step || part_of(p) != kStep ? body : &bodies_[kBefore];
  };
  const bool in_steps = choice_.depth > 0 && choice_.depth < left.depth.extent && left.of_inputs &&
                        right.of_inputs && !left.of_step;
  // Steps that end beyond the depth end beyond a tile of it, too: they load their own of the rows.
  const bool keeps =
      choice_.left_in_block && (choice_.depth == 0 || left.depth.extent % choice_.depth == 0);
  // Units take rows of float32 from memory along the depth alone.
  const bool lies_along =
      byte_size(left.value->type) == 2 ||
      (!left.value->indices.empty() && left.value->indices.back() == left.depth.index);
  // Beside each other warps lack what the others have of a row.
  if (left.is_value && product.units && warps_.across == 1 && lies_along) {
    left.tile = left.value->symbol;
  } else if (!in_steps || keeps) {
    left.is_value = false;
    const bool in_block = !product.units || choice_.left_in_block || left.of_step;
    load("A", in_block, product.units, true, &left, loads(left));
  }
  right.is_value = false;
  product.sum = value(space_.name_of(p) + "_s", DType::kF32);
  if (in_steps) {
    multiply_in_steps(product, body);
  } else {
    load("B", true, product.units, false, &right, loads(right));
    multiply_tiles(product, scalar_constant(float_value(DType::kF32, 0)), body);
  }
  const TensorId tensor = space_.expr(p).output;
  const DType type = space_.program().tensors[static_cast<size_t>(tensor)].type.dtype;
  if (type == DType::kF32 && !space_.is_output(p) && carry_of(tensor) < 0) {
    values_[p] = product.sum;
  } else {
    keep(p, scalar_read(product.sum, DType::kF32, product.indices), body);
  }
  return {};
}

Result<ScheduledKernel> FragmentWriter::run() {
  WEFT_RETURN_IF_ERROR(check_choice());
  WEFT_RETURN_IF_ERROR(boxes_.find());
  make_carries();
  const int64_t splits = space_.splits();
  const bool is_split = splits > 1;
  if (is_split) WEFT_RETURN_IF_ERROR(check_parts());
  for (int p = 0; p < space_.size(); ++p) {
    const bool joins = is_split && part_of(p) == kBehind && joining_.axes.empty();
    if (joins) WEFT_RETURN_IF_ERROR(leave_parts());
    WEFT_RETURN_IF_ERROR(write(p));
  }
  put_nests();
  const int64_t items = static_cast<int64_t>(demand_.blocks) * splits;
  program_.blocks = items;
  if (is_split && !in_cluster_) program_.per_sm = ceil_div(items, target_.sm_count);
  if (Status status = verify_tile_program(program_); !status.ok())
    return unsupported("a chain on fragments: " + status.error().message);
  ScheduledKernel out;
  WEFT_ASSIGN_OR_RETURN(out.scopes, derive_scopes(program_));
  out.composition.kind = Composition::Kind::kChain;
  out.composition.partition = partition_;
  Composition leaf;
  leaf.choice = choice_;
  out.composition.members.push_back(std::move(leaf));
  out.composition.stages.emplace_back();
  for (int p = 0; p < space_.size(); ++p) out.composition.stages[0].push_back(p);
  out.schedule_template = fmt::format("fragments of {} warps", choice_.warps);
  if (is_split) out.schedule_template += fmt::format(", {} parts of the steps", splits);
  if (in_cluster_) out.schedule_template += " in a cluster";
  out.parameters = std::move(parameters_);
  out.program = std::move(program_);
  return out;
}

Result<ScheduledKernel> build_fragment_chain(const BlockSpace& space,
                                             const BlockPartition& partition, int row_loop,
                                             const DemandBoxes& demand,
                                             const FragmentsChoice& choice, const Target& target,
                                             const std::string& name) {
  if (row_loop < 0) return unsupported("blocks of one row have no fragments");
  const int64_t rows = partition.loops[static_cast<size_t>(row_loop)].step;
  if (space.splits() > 1 && !parts_form_cluster(space.splits(), rows, target) &&
      !target.grid_barriers)
    return unsupported("parts of an axis are joined behind a barrier of the grid");
  return FragmentWriter(space, partition, row_loop, demand, choice, target, name).run();
}

}  // namespace weft
