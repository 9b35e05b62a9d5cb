#include "schedule/stages/fragment_chain.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "expr/widen_halves.h"
#include "fmt/format.h"
#include "schedule/gpu/matrix_tile.h"
#include "schedule/gpu/product_factor.h"
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
constexpr int64_t kWholeUnits = 16;  ///< of what no axis' length has to be a multiple

/// A box's axis: how the program calls its elements.
struct BoxVar {
  IndexExpr index = 0;
  TileVarId var = -1;  ///< an offset or an axis; -1: one element
  int64_t extent = 1;  ///< with what lies beyond the tensor
  int64_t full = 1;    ///< without
};

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
        row_loop_(row_loop),
        demand_(demand),
        choice_(choice),
        target_(target) {
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
  void make_loops();
  int64_t length_of(size_t l) const;
  Status find_boxes();
  BoxVar whole_axis(int64_t extent, int ordinal);
  void make_carries();
  Status write(int p);
  Status write_product(int p, TileBody* body);
  Result<ScalarRef> reduced(int p, TileBody* body);
  void keep(int p, const ScalarRef& value, TileBody* body);
  std::vector<IndexExpr> indices_of(int p) const;
  const BoxVar& box_var(int p, int var) const {
    return boxes_[static_cast<size_t>(p)][static_cast<size_t>(var)];
  }
  int part_of(int p) const {
    return demand_.members[static_cast<size_t>(p)].level - demand_.over_blocks;
  }
  ScalarRef translated(int p, const ScalarRef& s);
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
  Place fragments(const BoxVar& rows, const BoxVar& columns, bool units) const;
  int64_t unit_of(TileVarId id) const;

  const BlockSpace& space_;
  const BlockPartition& partition_;
  const int row_loop_;
  const DemandBoxes& demand_;
  const FragmentsChoice& choice_;
  const Target& target_;

  TileProgram program_;
  KernelNames names_;
  std::vector<TensorId> parameters_;
  std::map<TensorId, TileSymbolId> symbols_;
  std::vector<TileLoop::Dim> loops_;
  std::vector<TileLoop::Dim> once_;  ///< of one iteration: axes with what lies beyond them
  std::map<std::pair<int64_t, int>, BoxVar> whole_;
  std::vector<std::vector<BoxVar>> boxes_;  ///< by member and variable
  std::map<int, TileSymbolId> values_;
  std::vector<TileCarry> carries_;
  std::array<TileBody, 3> bodies_;
  int writing_ = kBefore;
  TileVarId row_var_ = -1;
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

int64_t FragmentWriter::length_of(size_t l) const {
  if (static_cast<int>(l) == demand_.carrying) return demand_.carried_extent;
  const BlockPartition::Loop& along = partition_.loops[l];
  for (size_t r = 0; r < along.axes.size(); ++r) {
    if (along.axes[r] >= 0)
      return space_.expr(partition_.roots[r]).extents[static_cast<size_t>(along.axes[r])];
  }
  return 1;
}

void FragmentWriter::make_loops() {
  const TileVarId p = program_.add_var("P", TileVar::Kind::kSize, 0);
  program_.blocks = IndexExpr::var(p);
  for (size_t l = 0; l < demand_.loops.size(); ++l) {
    const std::string name = "b" + std::to_string(l);
    TileLoop::Dim dim;
    dim.step = demand_.loops[l].step;
    dim.origin = program_.add_var(name, TileVar::Kind::kOrigin, 0);
    if (dim.step > 1) dim.offset = program_.add_var(name, TileVar::Kind::kOffset, dim.step);
    dim.begin = 0;
    dim.end = length_of(l);
    loops_.push_back(dim);
  }
  const TileLoop::Dim& rows = loops_[static_cast<size_t>(row_loop_)];
  if (rows.step < rows.end.constant()) {
    row_var_ = rows.offset;
    return;
  }
  // A block has all of them, and what its warps have beyond.
  const BoxVar all{program_.index_of(rows), rows.offset, rows.step, rows.end.constant()};
  whole_.emplace(std::pair(all.full, 0), all);
  row_var_ = rows.offset;
}

/// An axis that no loop cuts. Members that have axes of one length call them alike, the first, the
/// second and so on. One that is no multiple of a unit is a loop of one iteration, beyond whose end
/// nothing is computed.
BoxVar FragmentWriter::whole_axis(int64_t extent, int ordinal) {
  const auto [known, is_new] = whole_.try_emplace({extent, ordinal});
  BoxVar& out = known->second;
  if (!is_new) return out;
  const std::string name = "c" + std::to_string(whole_.size());
  out.full = extent;
  out.extent = round_up(extent, kWholeUnits);
  if (extent == out.extent) {
    out.var = program_.add_var(name, TileVar::Kind::kAxis, extent);
    out.index = IndexExpr::var(out.var);
    return out;
  }
  TileLoop::Dim dim;
  dim.step = out.extent;
  dim.origin = program_.add_var(name, TileVar::Kind::kOrigin, 0);
  out.var = dim.offset = program_.add_var(name, TileVar::Kind::kOffset, dim.step);
  dim.begin = 0;
  dim.end = extent;
  once_.push_back(dim);
  out.index = program_.index_of(dim);
  return out;
}

Status FragmentWriter::find_boxes() {
  boxes_.resize(static_cast<size_t>(space_.size()));
  for (int p = 0; p < space_.size(); ++p) {
    const TensorExpr& e = space_.expr(p);
    const Demand& own = demand_.members[static_cast<size_t>(p)];
    std::map<int64_t, int> ordinals;
    for (int v = 0; v < e.axis_count(); ++v) {
      BoxAxis axis{0, e.range(v).hi + 1, e.range(v).hi + 1};
      if (v < e.output_rank()) axis = own.box[static_cast<size_t>(v)];
      if (v == own.piece.variable) axis = own.piece.box;
      BoxVar out;
      if (axis.extent == 1) {
        out.index = substitute(axis.origin, [&](int l) {
          return IndexExpr::var(loops_[static_cast<size_t>(l)].origin);
        });
      } else if (axis.origin.is_const(0) && axis.extent == axis.full) {
        out = whole_axis(axis.full, ordinals[axis.full]++);
      } else if (axis.origin.is_var() &&
                 axis.extent == loops_[static_cast<size_t>(axis.origin.var_id())].step) {
        const TileLoop::Dim& loop = loops_[static_cast<size_t>(axis.origin.var_id())];
        out = {program_.index_of(loop), loop.offset, loop.step, axis.full};
      } else {
        return unsupported("blocks have a part of " + space_.name_of(p) + " that no loop walks");
      }
      boxes_[static_cast<size_t>(p)].push_back(out);
    }
  }
  return {};
}

std::vector<IndexExpr> FragmentWriter::indices_of(int p) const {
  std::vector<IndexExpr> out;
  for (int d = 0; d < space_.expr(p).output_rank(); ++d) out.push_back(box_var(p, d).index);
  return out;
}

void FragmentWriter::make_carries() {
  for (const BlockSpace::Carry& c : space_.carries()) {
    const TensorId tensor = space_.expr(c.after).output;
    const DType type = space_.program().tensors[static_cast<size_t>(tensor)].type.dtype;
    carries_.push_back(carried(value(space_.name_of(c.after), type, TileSymbol::Kind::kCarry),
                               indices_of(c.after), scalar_constant(c.first), {}));
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
  return rewrite(
      s,
      [&](int var) {
        return var < kRuntimeIndexBase ? box_var(p, var).index : IndexExpr::var(var);
      },
      [&](const ScalarRef& read) -> ScalarRef {
        auto copy = std::make_shared<Scalar>(*read);
        const auto tensor = static_cast<TensorId>(read->symbol);
        const int producer = space_.producer(tensor);
        if (const TileSymbolId carry = carry_of(tensor); carry >= 0) {
          copy->symbol = carry;
          copy->next = writing_ == kStep && !space_.is_carry(tensor);
        } else {
          copy->symbol =
              producer >= 0 ? values_.at(producer) : parameter(tensor, TileSymbol::Kind::kInput);
        }
        return copy;
      });
}

/// Whether something of it is made anew in each step.
bool FragmentWriter::changes_with_steps(int p, const ScalarRef& s) const {
  const TileLoop::Dim& loop = loops_[static_cast<size_t>(demand_.carrying)];
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
  body->push_back(
      TileNode::of(assign_reduced(made, indices_of(p), e.combiner, std::move(over), terms, {})));
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
  body->push_back(TileNode::of(assign(kept, indices_of(p), result, {})));
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

int64_t FragmentWriter::unit_of(TileVarId id) const {
  for (const TileLoop::Dim& loop : loops_) {
    if (loop.origin == id) return loop.step;
  }
  return 1;
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
    return access_width(program_, f->value, along.var, std::min(most, along.extent), along.full,
                        [&](TileVarId id) { return unit_of(id); });
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
  const auto depends = [](const ScalarRef& s, int v) {
    bool used = false;
    visit(s, [&](const Scalar& node) {
      used |= node.kind == Scalar::Kind::kIndex && uses_var(node.index, v);
      for (const IndexExpr& i : node.indices) used |= uses_var(i, v);
    });
    return used;
  };
  std::array<int, 2> across = {-1, -1};
  int depth = -1, depths = 0;
  for (int v = 0; v < e.axis_count(); ++v) {
    if (box_var(p, v).var < 0) continue;
    const bool first = depends(factors[0], v), second = depends(factors[1], v);
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
  if (box_var(p, across[1]).var == row_var_) {
    std::swap(across[0], across[1]);
    std::swap(factors[0], factors[1]);
  }
  if (box_var(p, across[0]).var != row_var_)
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
  if (part_of(p) != kStep) return unsupported(space_.name_of(p) + " is no product of the steps");
  WEFT_ASSIGN_OR_RETURN(Product product, product_of(p));
  Factor &left = product.left, &right = product.right;
  const bool in_steps = choice_.depth > 0 && choice_.depth < left.depth.extent && left.of_inputs &&
                        right.of_inputs && !left.of_step;
  if (left.is_value && product.units) {
    left.tile = left.value->symbol;
  } else if (!in_steps || choice_.left_in_block) {
    left.is_value = false;
    const bool in_block = !product.units || choice_.left_in_block || left.of_step;
    load("A", in_block, product.units, true, &left, left.of_step ? body : &bodies_[kBefore]);
  }
  right.is_value = false;
  product.sum = value(space_.name_of(p) + "_s", DType::kF32);
  if (in_steps) {
    multiply_in_steps(product, body);
  } else {
    load("B", true, product.units, false, &right, right.of_step ? body : &bodies_[kBefore]);
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
  if (row_loop_ < 0) return unsupported("blocks of one row have no fragments");
  make_loops();
  WEFT_RETURN_IF_ERROR(find_boxes());
  make_carries();
  for (int p = 0; p < space_.size(); ++p) WEFT_RETURN_IF_ERROR(write(p));
  TileLoop steps;
  steps.dims.push_back(loops_[static_cast<size_t>(demand_.carrying)]);
  steps.stages = choice_.stages;
  steps.carries = std::move(carries_);
  steps.body = std::move(bodies_[kStep]);
  TileLoop grid;
  grid.kind = TileLoop::Kind::kGrid;
  grid.dims.assign(loops_.begin(), loops_.begin() + demand_.over_blocks);
  grid.dims.insert(grid.dims.end(), once_.begin(), once_.end());
  grid.body = std::move(bodies_[kBefore]);
  grid.body.push_back(TileNode::of(std::move(steps)));
  for (TileNode& node : bodies_[kBehind]) grid.body.push_back(std::move(node));
  program_.body.push_back(TileNode::of(std::move(grid)));
  program_.blocks = static_cast<int64_t>(demand_.blocks);
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
  return FragmentWriter(space, partition, row_loop, demand, choice, target, name).run();
}

}  // namespace weft
