#include <algorithm>

#include "lower/lowering.h"

namespace weft::lowering {

namespace {

constexpr int64_t kTileRows = 16, kTileColumns = 8;  ///< of one product of a unit
constexpr int64_t kRowBytes = 16;                    ///< of one row of load_matrix

KernelUnit unit_of(DType type) {
  return type == DType::kF16    ? KernelUnit::kM16N8K16F16
         : type == DType::kBF16 ? KernelUnit::kM16N8K16BF16
                                : KernelUnit::kM16N8K8TF32;
}

IndexExpr digit_of(const std::function<int(const ThreadDigit&)>& var, PlaceLevel level,
                   int64_t stride, int64_t extent) {
  return extent == 1 ? IndexExpr(0) : IndexExpr::var(var({level, stride, extent}));
}

}  // namespace

/// What moves rows by whole patterns stays outside: the rest is the same in all iterations.
Reg Lowering::swizzled(TileSymbolId symbol, const PointOffset& at) {
  const auto& swizzle = scopes_.symbols[static_cast<size_t>(symbol)].swizzle;
  if (!swizzle || swizzle->bits == 0) return emit_terms(at.terms, at.constant);
  const int64_t pattern = int64_t{1} << (swizzle->bits + swizzle->base + swizzle->shift);
  std::vector<std::pair<int, int64_t>> outside, inside;
  for (const auto& term : at.terms) {
    (term.second % pattern == 0 ? outside : inside).push_back(term);
  }
  const int64_t rest = mod(IndexExpr(at.constant), pattern).constant();
  const Reg base = swizzled(symbol, emit_terms(inside, rest));
  return builder_.apply(ScalarOp::kAdd, {base, emit_terms(outside, at.constant - rest)},
                        DType::kI64);
}

Reg Lowering::swizzled(TileSymbolId symbol, Reg offset) {
  const auto& swizzle = scopes_.symbols[static_cast<size_t>(symbol)].swizzle;
  if (!swizzle || swizzle->bits == 0) return offset;
  const int32_t lanes = builder_.type(offset).lanes;
  const auto op = [&](ScalarOp o, Reg a, int64_t b) {
    return builder_.apply(o, {a, to_lanes(builder_.int_constant(b), lanes)}, DType::kI64);
  };
  const int64_t mask = ((int64_t{1} << swizzle->bits) - 1) << swizzle->base;
  const Reg row = op(ScalarOp::kDiv, offset, int64_t{1} << swizzle->shift);
  return builder_.apply(ScalarOp::kXor, {offset, op(ScalarOp::kAnd, row, mask)}, DType::kI64);
}

TileSymbolId Lowering::accumulates(const TileNode& product, const TileNode& next) const {
  if (product.kind != TileNode::Kind::kStatement || next.kind != TileNode::Kind::kStatement) {
    return -1;
  }
  const TileStatement &p = product.statement, &sum = next.statement;
  if (!sum.unit.empty() || sum.combiner != TileCombiner::kNone || sum.targets.size() != 1 ||
      !sum.targets[0].next || sum.value->kind != Scalar::Kind::kApply ||
      sum.value->op != ScalarOp::kAdd) {
    return -1;
  }
  const auto product_of = unit_product(program_, p);
  if (!product_of) return -1;
  const TileRef &carry = sum.targets[0], &made = p.targets[0];
  const auto reads = [](const Scalar& s, const TileRef& of) {
    return s.kind == Scalar::Kind::kRead && !s.next && s.symbol == of.symbol &&
           s.indices == of.indices;
  };
  const bool adds =
      (reads(*sum.value->operands[0], carry) && reads(*sum.value->operands[1], made)) ||
      (reads(*sum.value->operands[1], carry) && reads(*sum.value->operands[0], made));
  const auto count = read_counts_.find(made.symbol);
  const bool once = count != read_counts_.end() && count->second == 1;
  const auto type = [&](TileSymbolId id) { return program_.symbols[static_cast<size_t>(id)].type; };
  const bool same = made.indices == carry.indices && type(carry.symbol) == DType::kF32 &&
                    type(made.symbol) == DType::kF32 && resolved_place(sum) == product_of->result();
  const bool here = buffer_of_[static_cast<size_t>(carry.symbol)] < 0 &&
                    buffer_of_[static_cast<size_t>(made.symbol)] < 0;
  return adds && once && same && here ? carry.symbol : -1;
}

void Lowering::emit_matrix_product(const TileStatement& statement, const UnitProduct& product,
                                   TileSymbolId carry) {
  const TileRef& target = statement.targets[0];
  std::vector<TileVarId> vars;
  for (const IndexExpr& e : target.indices) vars.push_back(axis_of(program_, e));
  vars.erase(std::remove_if(vars.begin(), vars.end(), [](TileVarId v) { return v < 0; }),
             vars.end());
  const Box box = make_box(vars, resolved_place(statement));
  const int rows = box.find(product.m), columns = box.find(product.n);
  const auto number = [&](int64_t row, int64_t column) {
    const int64_t a = rows < columns ? row : column, b = rows < columns ? column : row;
    return static_cast<size_t>(a * box.axes[static_cast<size_t>(std::max(rows, columns))].regs + b);
  };
  RegisterTile tile = make_tile(target, box);
  const auto zero = builder_.constant({DType::kF32, 1}, float_value(DType::kF32, 0));
  std::vector<std::vector<Reg>> sums;
  for (int64_t i = 0; i < product.tiles_m; ++i) {
    for (int64_t j = 0; j < product.tiles_n; ++j) {
      std::vector<Reg> c(4, zero);
      for (int32_t r = 0; r < 4 && carry >= 0; ++r) {
        c[static_cast<size_t>(r)] =
            builder_.extract(tiles_.at(carry).regs[number(2 * i + r / 2, j)], r % 2);
      }
      sums.push_back(std::move(c));
    }
  }
  const KernelUnit unit = unit_of(product.a->type);
  const int64_t depth = 2 * kRowBytes / byte_size(product.a->type);
  const int64_t extent = program_.vars[static_cast<size_t>(product.k)].extent;
  for (int64_t step = 0; step * depth < extent; ++step) {
    const auto fragments = [&](const Scalar& read, bool left) {
      const bool rows_of_memory = buffer_of_[static_cast<size_t>(read.symbol)] >= 0 &&
                                  fills_matrix_rows(static_cast<TileSymbolId>(read.symbol));
      return rows_of_memory ? load_fragments(read, product, left, step)
                            : pack_fragments(read, product, left, step);
    };
    const Fragments a = fragments(*product.a, true), b = fragments(*product.b, false);
    for (size_t i = 0; i < a.size(); ++i) {
      for (size_t j = 0; j < b.size(); ++j) {
        std::vector<Reg>& c = sums[i * b.size() + j];
        c = builder_.matrix_multiply(unit, a[i], b[j], c);
      }
    }
  }
  for (int64_t i = 0; i < product.tiles_m; ++i) {
    for (int64_t j = 0; j < product.tiles_n; ++j) {
      const auto& c = sums[static_cast<size_t>(i * product.tiles_n + j)];
      tile.regs[number(2 * i, j)] = join_lanes({c[0], c[1]});
      tile.regs[number(2 * i + 1, j)] = join_lanes({c[2], c[3]});
    }
  }
  if (carry < 0) {
    tiles_[target.symbol] = std::move(tile);
  } else {
    next_tiles_[carry] = std::move(tile);
  }
}

/// Out of rows in shared memory, by the addresses that the lanes give: a tile of A at a time, two
/// of B.
Lowering::Fragments Lowering::load_fragments(const Scalar& read, const UnitProduct& product,
                                             bool left, int64_t step) {
  const TileVarId across = left ? product.m : product.n;
  const bool transposed = axis_of(program_, read.indices.back()) != product.k;
  const int64_t row = kRowBytes / byte_size(read.type);
  const auto lane = [&](int64_t stride, int64_t extent) {
    return digit_of([this](const ThreadDigit& d) { return thread_var(d); }, PlaceLevel::kLane,
                    stride, extent);
  };
  const int64_t tile = left ? kTileRows : kTileColumns;
  const int64_t tiles = left ? product.tiles_m : product.tiles_n;
  const IndexExpr warp =
      digit_of([this](const ThreadDigit& d) { return thread_var(d); }, PlaceLevel::kWarp,
               left ? product.warps_n : 1, left ? product.warps_m : product.warps_n) *
      (tile * tiles);
  // Lanes 8i to 8i+7 point to the rows of matrix i: of A the halves of the rows come first, of B
  // those of the depth.
  const IndexExpr within = lane(1, 8), first = lane(8, 2), second = lane(16, 2);
  const IndexExpr half_across = (left ? first : second) * 8, half_deep = left ? second : first;
  const IndexExpr at_across = warp + half_across + (transposed ? IndexExpr(0) : within);
  const IndexExpr at_deep = half_deep * row + (transposed ? within : IndexExpr(0)) + step * 2 * row;
  Fragments out;
  begin_evaluation(Box{});
  const int64_t together = left ? 1 : 2;
  for (int64_t t = 0; t < tiles; t += together) {
    const IndexExpr offset = bind(substitute(
        buffer_offset(static_cast<TileSymbolId>(read.symbol), read.indices), [&](int id) {
          if (id == across) return at_across + t * tile;
          return id == product.k ? at_deep : IndexExpr::var(id);
        }));
    const auto at = affine_at_point(prepare(offset), {});
    const auto symbol = static_cast<TileSymbolId>(read.symbol);
    const Reg address = at ? swizzled(symbol, *at) : swizzled(symbol, emit_index(offset));
    const bool pair = left || t + 1 < tiles;
    const std::vector<Reg> words = builder_.load_matrix(
        buffer_of_[static_cast<size_t>(read.symbol)], address, pair ? 4 : 2, transposed);
    if (left) {
      out.push_back(words);
    } else {
      out.push_back({words[0], words[1]});
      if (pair) out.push_back({words[2], words[3]});
    }
  }
  return out;
}

/// Of values in registers, or loaded one by one: zeros where the box is predicated off.
Lowering::Fragments Lowering::pack_fragments(const Scalar& read, const UnitProduct& product,
                                             bool left, int64_t step) {
  const TileVarId across = left ? product.m : product.n;
  const Box box = make_box({across, product.k}, left ? product.left() : product.right());
  begin_evaluation(box);
  const auto value = std::make_shared<const Scalar>(read);
  kept_.push_back(value);
  const Reg zero = builder_.constant({read.type, box.lanes}, float_value(read.type, 0));
  const auto word = [&](int64_t reg, int64_t half) {
    const Point point{static_cast<int32_t>(reg), static_cast<int32_t>(2 * step + half)};
    bool skip = false;
    const Reg mask = lane_mask_of(box, point, &skip);
    if (skip) return pack_word(zero);
    Reg elements = to_lanes(evaluate(value, point, mask), box.lanes);
    if (mask != kNoReg) {
      elements =
          builder_.apply(ScalarOp::kSelect, {to_lanes(mask, box.lanes), elements, zero}, read.type);
    }
    return pack_word(elements);
  };
  Fragments out;
  for (int64_t t = 0; t < (left ? product.tiles_m : product.tiles_n); ++t) {
    if (left) {
      out.push_back({word(2 * t, 0), word(2 * t + 1, 0), word(2 * t, 1), word(2 * t + 1, 1)});
    } else {
      out.push_back({word(t, 0), word(t, 1)});
    }
  }
  return out;
}

/// A float, or two 16-bit elements with the first one below.
Reg Lowering::pack_word(Reg elements) {
  if (builder_.type(elements).lanes == 1) {
    return builder_.apply(ScalarOp::kBitcast, {elements}, DType::kU32);
  }
  const Reg bits = builder_.apply(ScalarOp::kBitcast, {elements}, DType::kU16);
  const Reg low = builder_.apply(ScalarOp::kConvert, {builder_.extract(bits, 0)}, DType::kU32);
  const Reg high = builder_.apply(ScalarOp::kConvert, {builder_.extract(bits, 1)}, DType::kU32);
  const Reg shift = builder_.constant({DType::kU32, 1}, int_value(DType::kU32, 16));
  return builder_.apply(ScalarOp::kOr,
                        {low, builder_.apply(ScalarOp::kShl, {high, shift}, DType::kU32)},
                        DType::kU32);
}

}  // namespace weft::lowering
