#include "lower/cpu/dot_products.h"

#include <algorithm>
#include <map>

#include "expr/products/bfloat_products.h"
#include "expr/products/integer_products.h"
#include "lower/core/box_variables.h"
#include "lower/core/buffers.h"
#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"
#include "lower/core/statements.h"
#include "tile/bfloat_dot.h"
#include "tile/word_dot.h"

namespace weft::lowering {

namespace {

/// Whether `sum` is `carry' = carry + made`, of all elements, in the statement's box.
bool adds_to_carry(const TileStatement& sum, const TileRef& made) {
  const TileRef& carry = sum.targets[0];
  const ScalarRef& value = sum.value;
  if (!carry.next || sum.combiner != TileCombiner::kNone || carry.indices != made.indices ||
      value->kind != Scalar::Kind::kApply || value->op != ScalarOp::kAdd)
    return false;
  const auto reads = [&](const ScalarRef& s, TileSymbolId symbol) {
    return s->kind == Scalar::Kind::kRead && s->symbol == symbol && !s->next &&
           s->indices == carry.indices;
  };
  return reads(value->operands[0], carry.symbol) && reads(value->operands[1], made.symbol);
}

int64_t reads_of(const TileProgram& program, TileSymbolId symbol) {
  int64_t count = 0;
  for_each_statement(program.body, [&](const TileStatement& s) {
    visit(s.value, [&](const Scalar& n) {
      count += n.kind == Scalar::Kind::kRead && n.symbol == symbol ? 1 : 0;
    });
  });
  return count;
}

/// The factors of a product by one of the units.
struct UnitFactors {
  ScalarRef left;   ///< the same for all lanes
  ScalarRef right;  ///< another for each
  size_t left_side = 0;
  ScalarRef inside;     ///< null: always
  ScalarValue outside;  ///< what the left factor is where `inside` does not hold
  int64_t depth = 0;    ///< products that a lane adds up
};

/// Of bfloat16 the one is left that does not change from lane to lane.
std::optional<UnitFactors> factors_of(const TileStatement& product, TileVarId lanes) {
  const bool words = product.unit == kWordDotUnit;
  if (words || product.unit == kByteDotUnit) {
    const std::optional<IntegerProduct> integers = as_integer_product(product.value);
    if (!integers || integers->in_words() != words) return std::nullopt;
    return UnitFactors{integers->left,
                       integers->right,
                       0,
                       integers->inside,
                       int_value(integers->left->type, integers->outside),
                       words ? kWordDotDepth : kByteDotDepth};
  }
  std::optional<FloatProduct> floats = as_bfloat_product(product.value);
  if (!floats) return std::nullopt;
  const auto changes = [&](size_t side) {
    return std::ranges::any_of(floats->reads[side]->indices,
                               [&](const IndexExpr& e) { return uses_var(e, lanes); });
  };
  const size_t right = changes(1) ? 1 : 0;
  if (floats->inside && floats->padded_side == right) return std::nullopt;
  return UnitFactors{floats->reads[1 - right], floats->reads[right],         1 - right,
                     floats->inside,           float_value(DType::kBF16, 0), kBFloatDotDepth};
}

/// One of the factors: where its elements lie.
struct Elements {
  int32_t buffer = -1;
  PreparedIndex offset;
};

class DotProduct {
 public:
  DotProduct(CpuWriter& w, const TileStatement& product, const TileStatement& sum)
      : w_(w), product_(product), sum_(sum), depth_(product.reduce_axes[0]) {}

  bool prepare_factors() {
    std::vector<TileVarId> vars;
    for (const IndexExpr& e : sum_.targets[0].indices) add_box_variables(w_.program, e, &vars);
    sums_ = w_.make_box(vars, w_.place_of(sum_));
    vars.push_back(depth_);
    box_ = w_.make_box(vars, w_.place_of(product_));
    if (box_.vec_axis != sums_.vec_axis || box_.vec_axis < 0 || box_.lanes != sums_.lanes ||
        box_.axes.back().lanes != 1)
      return false;
    begin_evaluation(w_, box_);
    const TileVarId lanes = box_.axes[static_cast<size_t>(box_.vec_axis)].var;
    const auto factors = factors_of(product_, lanes);
    if (!factors || box_.axes.back().regs != factors->depth ||
        box_.points() != sums_.points() * factors->depth)
      return false;
    factors_ = *factors;
    const auto& valid = w_.bindings.valid[static_cast<size_t>(depth_)];
    if (valid && valid->reg != kNoReg) return false;
    count_ = valid ? valid->count : factors_.depth;
    return locate(*factors_.left, lanes, 0, &left_) &&
           locate(*factors_.right, lanes, factors_.depth, &right_);
  }

  void emit() {
    const TileSymbolId carry = sum_.targets[0].symbol;
    const std::vector<Reg>& before = w_.registers.tiles.at(carry).regs;
    const std::vector<Reg>& masks = w_.registers.carry_masks[carry];
    RegisterTile tile = make_tile(w_, sum_.targets[0], sums_);
    tile.regs = before;
    for_each_point(sums_, [&](int64_t number, const Point& point) {
      bool skip = false;
      const Reg mask = lane_mask_of(w_, sums_, point, &skip);
      if (skip) return;
      const auto n = static_cast<size_t>(number);
      Point at = point;
      at.push_back(0);
      const Reg left = left_elements(at, mask != kNoReg), right = right_elements(at);
      Reg next = w_.builder.dot(before[n], left, right);
      // Predicated off, a carry keeps its value; lanes that have been so since it began are not
      // read.
      if (mask != kNoReg && (n >= masks.size() || masks[n] != mask)) {
        next =
            w_.builder.apply(ScalarOp::kSelect, {to_lanes(w_, mask, box_.lanes), next, before[n]},
                             product_.value->type);
      }
      tile.regs[n] = next;
    });
    w_.registers.next[carry] = std::move(tile);
  }

 private:
  /// Whether a factor's elements lie side by side, `per_lane` of them from lane to lane.
  bool locate(const Scalar& read, TileVarId lanes, int64_t per_lane, Elements* out) {
    const auto symbol = static_cast<TileSymbolId>(read.symbol);
    out->buffer = w_.memory.buffer_of[static_cast<size_t>(symbol)];
    if (out->buffer < 0 || !read.operands.empty() || read.fill) return false;
    out->offset = prepare(w_, buffer_offset(w_, symbol, read.indices, read.next));
    const PreparedIndex& offset = out->offset;
    const bool side_by_side = count_ == 1 || offset.form.coefficient(depth_) == 1;
    return offset.affine && offset.scaled.empty() && side_by_side &&
           offset.form.coefficient(lanes) == per_lane;
  }

  int32_t depth() const { return static_cast<int32_t>(factors_.depth); }

  /// Of bfloat16 the bits; words, or bytes that become words beside them; other bytes as they are.
  Reg as_operand(Reg elements) {
    if (factors_.left->type == DType::kBF16)
      return w_.builder.apply(ScalarOp::kBitcast, {elements}, DType::kU16);
    if (factors_.left->type == DType::kI16)
      return w_.builder.apply(ScalarOp::kConvert, {elements}, DType::kI16);
    return elements;
  }

  Reg right_elements(const Point& point) {
    const auto at = affine_at_point(w_, right_.offset, point);
    return as_operand(w_.builder.load(right_.buffer, emit_terms(w_, at->terms, at->constant),
                                      depth() * box_.lanes));
  }

  /// `guarded`: rows beyond a tail are computed, too, and may lie outside of the buffer.
  Reg left_elements(const Point& point, bool guarded) {
    const uint64_t axes = box_mask(w_, product_.value->operands[factors_.left_side]);
    const auto [known, is_new] = broadcast_.try_emplace(project(point, axes), kNoReg);
    if (!is_new) return known->second;
    const Reg word = as_operand(neighbours(point, guarded));
    std::vector<int32_t> repeated;
    for (int32_t l = 0; l < depth() * box_.lanes; ++l) repeated.push_back(l % depth());
    return known->second = w_.builder.shuffle(word, word, std::move(repeated));
  }

  Reg neighbours(const Point& point, bool guarded) {
    const DType type = factors_.left->type;
    const Reg outside = w_.builder.constant({type, depth()}, factors_.outside);
    Reg condition = kNoReg;
    if (factors_.inside) {
      const auto decided = decide(w_, factors_.inside, point);
      if (decided == false) return outside;
      if (!decided) condition = evaluate(w_, factors_.inside, point, kNoReg);
    }
    const auto at = affine_at_point(w_, left_.offset, point);
    Reg address = emit_terms(w_, at->terms, at->constant);
    if (guarded || condition != kNoReg) address = clamped(point, address);
    const Reg loaded =
        count_ == factors_.depth
            ? w_.builder.load(left_.buffer, address, depth())
            : w_.builder.load(left_.buffer, address, depth(),
                              w_.builder.lane_mask(w_.builder.int_constant(count_), depth()),
                              is_float(type) ? float_value(type, 0) : int_value(type, 0));
    if (condition == kNoReg) return loaded;
    return w_.builder.apply(ScalarOp::kSelect, {to_lanes(w_, condition, depth()), loaded, outside},
                            type);
  }

  /// What is loaded there is not used where it lies outside: any address inside will do.
  Reg clamped(const Point& point, Reg address) {
    const IndexExpr& elements = w_.memory.elements[static_cast<size_t>(left_.buffer)];
    const auto range = [&](int id) { return range_of_var(w_, id); };
    const Interval reach = range_of(at_point(w_, left_.offset, point), range);
    if (elements.is_const() && reach.lo >= 0 && reach.hi + count_ <= elements.constant())
      return address;
    address =
        w_.builder.apply(ScalarOp::kMin, {address, emit_index(w_, elements - count_)}, DType::kI64);
    return w_.builder.apply(ScalarOp::kMax, {address, w_.builder.int_constant(0)}, DType::kI64);
  }

  CpuWriter& w_;
  const TileStatement& product_;
  const TileStatement& sum_;
  TileVarId depth_;
  UnitFactors factors_;
  Box sums_, box_;
  int64_t count_ = 0;  ///< of a step that is there: fewer in a tail of the depth
  Elements left_, right_;
  std::map<uint64_t, Reg> broadcast_;  ///< by the point's place on the axes of the left factor
};

}  // namespace

bool emit_dot_product(CpuWriter& w, const TileBody& body, size_t first) {
  if (first + 1 >= body.size() || body[first].kind != TileNode::Kind::kStatement ||
      body[first + 1].kind != TileNode::Kind::kStatement)
    return false;
  const TileStatement &product = body[first].statement, &sum = body[first + 1].statement;
  const bool by_unit = product.unit == kByteDotUnit || product.unit == kWordDotUnit ||
                       product.unit == kBFloatDotUnit;
  if (!by_unit || product.combiner != TileCombiner::kSum || product.reduce_axes.size() != 1 ||
      !adds_to_carry(sum, product.targets[0]))
    return false;
  const TileSymbolId made = product.targets[0].symbol, carry = sum.targets[0].symbol;
  const auto in_register = [&](TileSymbolId s) {
    return w.memory.buffer_of[static_cast<size_t>(s)] < 0;
  };
  if (!in_register(made) || !in_register(carry) || reads_of(w.program, made) != 1) return false;
  DotProduct dot(w, product, sum);
  if (!dot.prepare_factors()) return false;
  dot.emit();
  return true;
}

}  // namespace weft::lowering
