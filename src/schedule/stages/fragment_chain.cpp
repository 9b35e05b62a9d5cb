#include "schedule/stages/fragment_chain.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "expr/body_uses.h"
#include "expr/products/widen_halves.h"
#include "fmt/format.h"
#include "schedule/gpu/matrix_tile.h"
#include "schedule/gpu/product_factor.h"
#include "schedule/stages/fragment_boxes.h"
#include "schedule/writer/best_positions.h"
#include "schedule/writer/kernel_names.h"
#include "schedule/writer/statements.h"
#include "schedule/writer/tile_builder.h"
#include "support/rounding.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/check/verify_tile_program.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr int64_t kJoinedElements = 4;  ///< of float32, in one access
constexpr int64_t kWholeUnits = 16;     ///< of what no axis' length has to be a multiple

/// One factor of a product: `across` is the rows of the left one, the columns of the right one.
struct Factor {
  ScalarRef value;         ///< in the units' type
  BoxVar across, depth;    ///< as the product reads it
  bool of_step = false;    ///< changes from step to step
  bool of_inputs = false;  ///< of what comes from outside alone
  bool is_value = false;   ///< what a member made, element by element
  TileSymbolId tile = -1;
  bool depth_last = true;  ///< in the tile's coordinates
};

/// sum[indices] = left x right
struct Product {
  Factor left, right;
  bool units = true;  ///< else plain cores
  std::vector<IndexExpr> indices;
  TileSymbolId sum = -1;
};

class FragmentWriter {
 public:
  FragmentWriter(const BlockSpace& space, const BlockPartition& partition, int row_loop,
                 const DemandBoxes& demand, const FragmentsChoice& choice, const Target& target,
                 const std::string& name)
      : space_(space),
        partition_(partition),
        demand_(demand),
        choice_(choice),
        target_(target),
        boxes_(space, partition, row_loop, demand, &program_) {
    program_.cpu = false;
    program_.name = KernelNames::identifier(name);
    program_.warps = choice.warps;
  }

  Result<ScheduledKernel> run();

 private:
  using Part = CarriedProgram::Part;
  static constexpr int kBefore = static_cast<int>(Part::kBefore),
                       kStep = static_cast<int>(Part::kStep),
                       kBehind = static_cast<int>(Part::kBehind);

  Status check_choice() const;
  void make_carries();
  void add_unreached(const BlockSpace::Carry& c, TileCarry* carry);
  Status write(int p);
  Status write_product(int p, TileBody* body);
  Result<ScalarRef> reduced(int p, TileBody* body);
  void keep(int p, const ScalarRef& value, TileBody* body);
  std::vector<IndexExpr> indices_of(int p) const { return boxes_.indices_of(p); }
  const BoxVar& box_var(int p, int var) const { return boxes_.of(p, var); }
  int part_of(int p) const {
    return demand_.members[static_cast<size_t>(p)].level - demand_.over_blocks;
  }
  ScalarRef translated(int p, const ScalarRef& s);
  ScalarRef translated_at(const ScalarRef& s, const std::function<IndexExpr(int var)>& index_of);
  TileSymbolId carry_of(TensorId tensor) const;
  TileSymbolId parameter(TensorId tensor, TileSymbol::Kind kind);
  TileSymbolId value(const std::string& base, DType type,
                     TileSymbol::Kind kind = TileSymbol::Kind::kValue);
  bool changes_with_steps(int p, const ScalarRef& s) const;
  Result<Factor> factor(int p, const ScalarRef& s, int across, int depth);
  Result<Product> product_of(int p);
  void load(const std::string& base, bool in_block, bool units, bool left, Factor* f,
            TileBody* body);
  void multiply_tiles(const Product& of, const ScalarRef& before, TileBody* body);
  void multiply_in_steps(Product of, TileBody* body);
  std::vector<IndexExpr> tile_indices(const Factor& f, const IndexExpr& k) const;
  bool on_units() const;
  Place fragments(const BoxVar& rows, const BoxVar& columns, bool units) const;
  Status check_parts() const;
  Status leave_parts();
  Place joined_place(int p) const;
  TileLoop blocks_nest();

  const BlockSpace& space_;
  const BlockPartition& partition_;
  const DemandBoxes& demand_;
  const FragmentsChoice& choice_;
  const Target& target_;

  TileProgram program_;
  KernelNames names_;
  std::vector<TensorId> parameters_;
  std::map<TensorId, TileSymbolId> symbols_;
  FragmentBoxes boxes_;
  std::map<int, TileSymbolId> values_;
  std::vector<TileCarry> carries_;
  std::array<TileBody, 3> bodies_;
  /// Where the axis is split: what the parts leave, by tensor, and how a block joins them.
  std::map<TensorId, TileSymbolId> parts_;
  TileBody left_;
  Place joining_;
  int writing_ = kBefore;
  TileVarId depth_loop_ = -1;  ///< of products that go through their depth in steps
};

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
      const int64_t width = columns.empty() ? std::gcd(axis.full, kJoinedElements) : 1;
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
  if (keeps_position(e) || tile_combiner(e.combiner) == TileCombiner::kNone)
    return unsupported(space_.name_of(p) + " has no form for the threads of a block");
  std::vector<TileVarId> over;
  for (int v = e.output_rank(); v < e.axis_count(); ++v) {
    if (box_var(p, v).var >= 0) over.push_back(box_var(p, v).var);
  }
  const ScalarRef terms = scalar_convert(translated(p, e.body), e.accumulator);
  if (over.empty()) return terms;
  const TileSymbolId made = value(space_.name_of(p) + "_r", e.accumulator);
  body->push_back(TileNode::of(
      assign_reduced(made, indices_of(p), e.combiner, std::move(over), terms, joined_place(p))));
  return scalar_read(made, e.accumulator, indices_of(p));
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

/// How rows and columns lie on a block whose warps stand one below another.
Place FragmentWriter::fragments(const BoxVar& rows, const BoxVar& columns, bool units) const {
  using Digit = Place::Digit;
  const auto reg = [](int64_t n) { return Digit{PlaceLevel::kReg, n}; };
  const auto lanes = [](int64_t n) { return Digit{PlaceLevel::kLane, n}; };
  const auto vec = [](int64_t n) { return Digit{PlaceLevel::kVec, n}; };
  const Digit warps{PlaceLevel::kWarp, choice_.warps};
  const int64_t down = units ? kUnitColumns : kCoreRows, across = 32 / down;
  const int64_t width = units || columns.extent % kCoreColumns != 0 ? 2 : 4;
  return {{{rows.var, {warps, reg(rows.extent / choice_.warps / down), lanes(down)}},
           {columns.var, {reg(columns.extent / (across * width)), lanes(across), vec(width)}}}};
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

Result<Factor> FragmentWriter::factor(int p, const ScalarRef& s, int across, int depth) {
  Factor out;
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
std::vector<IndexExpr> FragmentWriter::tile_indices(const Factor& f, const IndexExpr& k) const {
  if (f.is_value) return f.value->indices;
  return f.depth_last ? std::vector<IndexExpr>{f.across.index, k}
                      : std::vector<IndexExpr>{k, f.across.index};
}

/// A tile of a factor in shared memory, or in the registers that multiply it. Rows of the tile run
/// along what lies together in memory, where the units take them so.
void FragmentWriter::load(const std::string& base, bool in_block, bool units, bool left, Factor* f,
                          TileBody* body) {
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
  if (units) {
    f->depth_last = byte_size(type) != 2 || deep >= wide;
  } else {
    f->depth_last = left && deep >= wide;
  }
  f->tile = value(base, type);
  TileStatement st = assign(f->tile, tile_indices(*f, f->depth.index), f->value, {});
  if (in_block) st.demand = Scope::kBlock;
  if (in_block && f->of_inputs) {
    ThreadTile threads(choice_.warps);
    const BoxVar &inner = f->depth_last ? f->depth : f->across,
                 &outer = f->depth_last ? f->across : f->depth;
    std::vector<Place::Digit> fast =
        threads.add(inner.extent, f->depth_last ? deep : wide, 32, choice_.warps, 0);
    std::vector<Place::Digit> slow = threads.add(outer.extent, 1, 32, choice_.warps, 0);
    if (slow.empty()) slow.push_back({PlaceLevel::kReg, 1});
    st.place.axes = {{outer.var, std::move(slow)}, {inner.var, std::move(fast)}};
  }
  body->push_back(TileNode::of(std::move(st)));
}

/// sum[rows, columns] = left x right, added to `before`, of tiles that are there.
void FragmentWriter::multiply_tiles(const Product& of, const ScalarRef& before, TileBody* body) {
  const Factor &left = of.left, &right = of.right;
  const DType type = left.value->type;
  const auto read = [&](const Factor& f, const IndexExpr& k) {
    return scalar_convert(scalar_read(f.tile, type, tile_indices(f, k)), DType::kF32);
  };
  const Place place = fragments(left.across, right.across, of.units);
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
void FragmentWriter::multiply_in_steps(Product of, TileBody* body) {
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
  const auto in_step = [&](Factor* f) {
    f->value = rewrite(f->value,
                       [&](int id) { return id == whole.var ? step.index : IndexExpr::var(id); });
    f->depth = step;
  };
  const bool kept = of.left.tile >= 0;
  for (Factor* f : {&of.left, &of.right}) in_step(f);
  if (!kept) load("A", true, of.units, true, &of.left, &loop.body);
  load("B", true, of.units, false, &of.right, &loop.body);
  const Place place = fragments(of.left.across, of.right.across, of.units);
  const TileSymbolId total = value("sum", DType::kF32, TileSymbol::Kind::kCarry);
  const ScalarRef before = scalar_read(total, DType::kF32, of.indices);
  loop.carries.push_back(
      carried(total, of.indices, scalar_constant(float_value(DType::kF32, 0)), place));
  Product step_of = of;
  step_of.sum = value("part", DType::kF32);
  multiply_tiles(step_of, before, &loop.body);
  const ScalarRef made = scalar_read(step_of.sum, DType::kF32, of.indices);
  loop.body.push_back(TileNode::of(assign_next(
      total, of.indices,
      of.units ? scalar_apply(ScalarOp::kAdd, {before, made}, DType::kF32) : made, place)));
  body->push_back(TileNode::of(std::move(loop)));
  body->push_back(TileNode::of(assign(of.sum, of.indices, before, place)));
}

Result<Product> FragmentWriter::product_of(int p) {
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
  Product out;
  out.units = byte_size(type) == 2 || target_.reduced_float32;
  WEFT_ASSIGN_OR_RETURN(out.left, factor(p, factors[0], across[0], depth));
  WEFT_ASSIGN_OR_RETURN(out.right, factor(p, factors[1], across[1], depth));
  out.indices = indices_of(p);
  const int64_t least = (out.units ? kUnitRows : kCoreRows) * choice_.warps;
  if (out.left.across.extent % least != 0)
    return invalid_input(
        fmt::format("{} rows are not shared by {} warps", out.left.across.extent, choice_.warps));
  return out;
}

Status FragmentWriter::write_product(int p, TileBody* body) {
  WEFT_ASSIGN_OR_RETURN(Product product, product_of(p));
  Factor &left = product.left, &right = product.right;
  // What does not change is loaded before the steps, of a product beside them where that stands.
  const auto loads = [&](const Factor& f) {
    return f.of_step || part_of(p) != kStep ? body : &bodies_[kBefore];
  };
  const bool in_steps = choice_.depth > 0 && choice_.depth < left.depth.extent && left.of_inputs &&
                        right.of_inputs && !left.of_step;
  if (left.is_value && product.units) {
    left.tile = left.value->symbol;
  } else if (!in_steps || choice_.left_in_block) {
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

/// Whether blocks with a part of the axis each, and others behind a barrier, can make the members.
Status FragmentWriter::check_parts() const {
  for (const BlockSpace::Carry& carry : space_.carries()) {
    const std::vector<IndexExpr> box = indices_of(carry.after);
    for (int l = 0; l < demand_.over_blocks; ++l) {
      const TileLoop::Dim& loop = boxes_.loop(l);
      const bool walks = std::ranges::any_of(
          box, [&](const IndexExpr& index) { return uses_var(index, loop.origin); });
      if (carry.parts >= 0 && !walks && loop.step < loop.end.constant())
        return unsupported("several blocks would leave " + space_.name_of(carry.after));
    }
  }
  for (int p = 0; p < space_.size(); ++p) {
    if (part_of(p) == kBefore && space_.is_output(p))
      return unsupported("each part of the axis would store " + space_.name_of(p));
    if (part_of(p) != kBehind) continue;
    const TensorExpr& e = space_.expr(p);
    if (!e.reduce_extents.empty() && space_.over_parts(p) < 0)
      return unsupported(space_.name_of(p) + " reduces what parts of the axis make together");
    std::string apart;
    visit(e.body, [&](const Scalar& s) {
      const int producer =
          s.kind == Scalar::Kind::kRead ? space_.producer(static_cast<TensorId>(s.symbol)) : -1;
      if (producer >= 0 && part_of(producer) != kBehind) apart = space_.name_of(producer);
    });
    if (!apart.empty())
      return unsupported(space_.name_of(p) + " reads " + apart + ", which parts of the axis make");
  }
  return {};
}

/// The carries behind a part's steps go to a workspace. Behind a barrier of the grid a block takes
/// rows and columns of all parts, a part a register, and joins them in their order.
Status FragmentWriter::leave_parts() {
  for (size_t c = 0; c < carries_.size(); ++c) {
    const BlockSpace::Carry& carry = space_.carries()[c];
    if (carry.parts < 0) continue;
    const DType type = carries_[c].type;
    const std::vector<IndexExpr> own = indices_of(carry.after);
    std::vector<IndexExpr> indices{IndexExpr::var(boxes_.part())};
    indices.insert(indices.end(), own.begin(), own.end());
    const TileSymbolId left = parts_[carry.parts] = value(space_.name_of(carry.after) + "_p", type);
    left_.push_back(
        TileNode::of(assign(left, indices, scalar_read(carries_[c].target.symbol, type, own), {})));
  }
  WEFT_ASSIGN_OR_RETURN(const BoxVar columns, boxes_.columns_behind());
  ThreadTile threads(choice_.warps);
  const auto across = threads.add(columns.full, std::gcd(columns.full, kJoinedElements), 32, 1, 1);
  const auto down = threads.add(boxes_.rows().full, 1, 32, choice_.warps, 1);
  const FragmentBoxes::Tile tile{std::max<int64_t>(digits_extent(down), 2),
                                 std::max<int64_t>(digits_extent(across), 2)};
  WEFT_RETURN_IF_ERROR(boxes_.move_behind(tile));
  const std::vector<TileLoop::Dim>& loops = boxes_.behind();
  const auto lies = [&](TileVarId var, std::vector<Place::Digit> digits) {
    if (digits.empty()) digits.push_back({PlaceLevel::kReg, 2});
    joining_.axes.push_back({var, std::move(digits)});
  };
  lies(boxes_.rows_behind().var, down);
  if (columns.var >= 0) lies(loops.back().offset, across);
  return {};
}

/// Of a member behind the barrier; none where nothing is joined.
Place FragmentWriter::joined_place(int p) const {
  Place out = joining_;
  if (!out.axes.empty() && space_.over_parts(p) >= 0)
    out.axes.push_back({boxes_.parts_var(), {{PlaceLevel::kReg, space_.splits()}}});
  return out;
}

TileLoop FragmentWriter::blocks_nest() {
  TileLoop steps;
  steps.dims.push_back(boxes_.steps());
  steps.stages = choice_.stages;
  steps.carries = std::move(carries_);
  steps.body = std::move(bodies_[kStep]);
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  grid.dims = boxes_.over_blocks();
  grid.body = std::move(bodies_[kBefore]);
  grid.body.push_back(TileNode::of(std::move(steps)));
  for (TileNode& node : left_) grid.body.push_back(std::move(node));
  return grid;
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
  TileLoop blocks = blocks_nest(), joining;
  TileBody& behind = is_split ? joining.body : blocks.body;
  for (TileNode& node : bodies_[kBehind]) behind.push_back(std::move(node));
  program_.body.push_back(TileNode::of(std::move(blocks)));
  if (is_split) {
    joining.kind = TileLoop::Kind::kGrid;
    joining.dims = boxes_.behind();
    program_.body.push_back(TileNode::of(std::move(joining)));
  }
  const int64_t items = static_cast<int64_t>(demand_.blocks) * splits;
  program_.blocks = items;
  if (is_split) program_.per_sm = ceil_div(items, target_.sm_count);
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
  out.parameters = std::move(parameters_);
  out.program = std::move(program_);
  return out;
}

}  // namespace

Result<ScheduledKernel> build_fragment_chain(const BlockSpace& space,
                                             const BlockPartition& partition, int row_loop,
                                             const DemandBoxes& demand,
                                             const FragmentsChoice& choice, const Target& target,
                                             const std::string& name) {
  if (row_loop < 0) return unsupported("blocks of one row have no fragments");
  if (space.splits() > 1 && !target.grid_barriers)
    return unsupported("parts of an axis are joined behind a barrier of the grid");
  return FragmentWriter(space, partition, row_loop, demand, choice, target, name).run();
}

}  // namespace weft
