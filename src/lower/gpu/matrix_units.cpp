#include "lower/gpu/matrix_units.h"

#include <algorithm>
#include <functional>

#include "lower/core/buffers.h"
#include "lower/core/expressions.h"
#include "lower/core/index_emission.h"
#include "lower/core/lanes.h"
#include "lower/core/statements.h"
#include "lower/core/thread_digits.h"

namespace weft::lowering {

namespace {

using Fragments = std::vector<std::vector<Reg>>;  ///< by tile: the words of one lane

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

/// Out of rows in shared memory, by the addresses that the lanes give: a tile of A at a time, two
/// of B.
Fragments load_fragments(GpuWriter& w, const Scalar& read, const UnitProduct& product, bool left,
                         int64_t step) {
  const TileVarId across = left ? product.m : product.n;
  const bool transposed = axis_of(w.program, read.indices.back()) != product.k;
  const int64_t row = kRowBytes / byte_size(read.type);
  const auto lane = [&](int64_t stride, int64_t extent) {
    return digit_of([&](const ThreadDigit& d) { return thread_var(w, d); }, PlaceLevel::kLane,
                    stride, extent);
  };
  const int64_t tile = left ? kTileRows : kTileColumns;
  const int64_t tiles = left ? product.tiles_m : product.tiles_n;
  const IndexExpr warp =
      digit_of([&](const ThreadDigit& d) { return thread_var(w, d); }, PlaceLevel::kWarp,
               left ? product.warps_n : 1, left ? product.warps_m : product.warps_n) *
      (tile * tiles);
  // Lanes 8i to 8i+7 point to the rows of matrix i: of A the halves of the rows come first, of B
  // those of the depth.
  const IndexExpr within = lane(1, 8), first = lane(8, 2), second = lane(16, 2);
  const IndexExpr half_across = (left ? first : second) * 8, half_deep = left ? second : first;
  const IndexExpr at_across = warp + half_across + (transposed ? IndexExpr(0) : within);
  const IndexExpr at_deep = half_deep * row + (transposed ? within : IndexExpr(0)) + step * 2 * row;
  Fragments out;
  begin_evaluation(w, Box{});
  const int64_t together = left ? 1 : 2;
  for (int64_t t = 0; t < tiles; t += together) {
    const IndexExpr offset =
        bind(w, substitute(buffer_offset(w, static_cast<TileSymbolId>(read.symbol), read.indices),
                           [&](int id) {
                             if (id == across) return at_across + t * tile;
                             return id == product.k ? at_deep : IndexExpr::var(id);
                           }));
    const auto at = affine_at_point(w, prepare(w, offset), {});
    const auto symbol = static_cast<TileSymbolId>(read.symbol);
    const Reg address = at ? swizzled(w, symbol, *at) : swizzled(w, symbol, emit_index(w, offset));
    const bool pair = left || t + 1 < tiles;
    const std::vector<Reg> words = w.builder.load_matrix(
        w.memory.buffer_of[static_cast<size_t>(read.symbol)], address, pair ? 4 : 2, transposed);
    if (left) {
      out.push_back(words);
    } else {
      out.push_back({words[0], words[1]});
      if (pair) out.push_back({words[2], words[3]});
    }
  }
  return out;
}

/// A float, or two 16-bit elements with the first one below.
Reg pack_word(GpuWriter& w, Reg elements) {
  if (w.builder.type(elements).lanes == 1) {
    return w.builder.apply(ScalarOp::kBitcast, {elements}, DType::kU32);
  }
  const Reg bits = w.builder.apply(ScalarOp::kBitcast, {elements}, DType::kU16);
  const Reg low = w.builder.apply(ScalarOp::kConvert, {w.builder.extract(bits, 0)}, DType::kU32);
  const Reg high = w.builder.apply(ScalarOp::kConvert, {w.builder.extract(bits, 1)}, DType::kU32);
  const Reg shift = w.builder.constant({DType::kU32, 1}, int_value(DType::kU32, 16));
  return w.builder.apply(ScalarOp::kOr,
                         {low, w.builder.apply(ScalarOp::kShl, {high, shift}, DType::kU32)},
                         DType::kU32);
}

/// Of values in registers, or loaded one by one: zeros where the box is predicated off.
Fragments pack_fragments(GpuWriter& w, const Scalar& read, const UnitProduct& product, bool left,
                         int64_t step) {
  const TileVarId across = left ? product.m : product.n;
  const Box box = w.make_box({across, product.k}, left ? product.left() : product.right());
  begin_evaluation(w, box);
  const auto value = std::make_shared<const Scalar>(read);
  w.at_hand.kept.push_back(value);
  const Reg zero = w.builder.constant({read.type, box.lanes}, float_value(read.type, 0));
  const auto word = [&](int64_t reg, int64_t half) {
    const Point point{static_cast<int32_t>(reg), static_cast<int32_t>(2 * step + half)};
    bool skip = false;
    const Reg mask = lane_mask_of(w, box, point, &skip);
    if (skip) return pack_word(w, zero);
    Reg elements = to_lanes(w, evaluate(w, value, point, mask), box.lanes);
    if (mask != kNoReg) {
      elements = w.builder.apply(ScalarOp::kSelect, {to_lanes(w, mask, box.lanes), elements, zero},
                                 read.type);
    }
    return pack_word(w, elements);
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

/// Where a warp group's part of an operand begins, and how its panels lie.
Reg group_operand(GpuWriter& w, const Scalar& read, const UnitProduct& product, bool left,
                  int32_t* panel, bool* across) {
  constexpr int64_t kGroupRows = kGroupWarps * kTileRows;
  const auto symbol = static_cast<TileSymbolId>(read.symbol);
  const SymbolScope& scope = w.scopes.symbols[static_cast<size_t>(symbol)];
  *across = axis_of(w.program, read.indices.back()) != product.k;
  *panel =
      static_cast<int32_t>(scope.extents[scope.extents.size() - 2] * scope.swizzle->panel_columns);
  IndexExpr group = left ? digit_of([&](const ThreadDigit& d) { return thread_var(w, d); },
                                    PlaceLevel::kWarp, kGroupWarps, product.warps_m / kGroupWarps) *
                               kGroupRows
                         : IndexExpr(0);
  begin_evaluation(w, Box{});
  const TileVarId other = left ? product.m : product.n;
  const IndexExpr offset = bind(w, substitute(buffer_offset(w, symbol, read.indices), [&](int id) {
                                  if (id == other) return group;
                                  return id == product.k ? IndexExpr(0) : IndexExpr::var(id);
                                }));
  const auto at = affine_at_point(w, prepare(w, offset), {});
  return at ? swizzled(w, symbol, *at) : swizzled(w, symbol, emit_index(w, offset));
}

/// All tiles of a warp's one row of them, in one operation of its group.
void multiply_by_group(GpuWriter& w, const UnitProduct& product,
                       std::vector<std::vector<Reg>>* sums) {
  GroupMultiplyPayload p;
  p.unit = product.a->type == DType::kF16 ? KernelUnit::kM64K16F16 : KernelUnit::kM64K16BF16;
  p.left = w.memory.buffer_of[static_cast<size_t>(product.a->symbol)];
  p.right = w.memory.buffer_of[static_cast<size_t>(product.b->symbol)];
  p.columns = static_cast<int32_t>(product.tiles_n * kTileColumns);
  p.under_way = w.multiplies_under_way;
  p.depth = static_cast<int32_t>(w.program.vars[static_cast<size_t>(product.k)].extent);
  const Reg left = group_operand(w, *product.a, product, true, &p.left_panel, &p.left_across);
  const Reg right = group_operand(w, *product.b, product, false, &p.right_panel, &p.right_across);
  std::vector<Reg> c;
  for (const std::vector<Reg>& tile : *sums) c.insert(c.end(), tile.begin(), tile.end());
  c = w.builder.group_multiply(p, left, right, c);
  for (size_t t = 0; t < sums->size(); ++t) {
    (*sums)[t].assign(c.begin() + static_cast<ptrdiff_t>(4 * t),
                      c.begin() + static_cast<ptrdiff_t>(4 * t + 4));
  }
}

void multiply_by_warps(GpuWriter& w, const UnitProduct& product,
                       std::vector<std::vector<Reg>>* sums) {
  const KernelUnit unit = unit_of(product.a->type);
  const int64_t depth = 2 * kRowBytes / byte_size(product.a->type);
  const int64_t extent = w.program.vars[static_cast<size_t>(product.k)].extent;
  for (int64_t step = 0; step * depth < extent; ++step) {
    const auto fragments = [&](const Scalar& read, bool left) {
      const bool rows_of_memory = w.memory.buffer_of[static_cast<size_t>(read.symbol)] >= 0 &&
                                  fills_matrix_rows(w, static_cast<TileSymbolId>(read.symbol));
      return rows_of_memory ? load_fragments(w, read, product, left, step)
                            : pack_fragments(w, read, product, left, step);
    };
    const Fragments a = fragments(*product.a, true), b = fragments(*product.b, false);
    for (size_t i = 0; i < a.size(); ++i) {
      for (size_t j = 0; j < b.size(); ++j) {
        std::vector<Reg>& c = (*sums)[i * b.size() + j];
        c = w.builder.matrix_multiply(unit, a[i], b[j], c);
      }
    }
  }
}

}  // namespace

TileSymbolId accumulates(const GpuWriter& w, const TileNode& product, const TileNode& next) {
  if (product.kind != TileNode::Kind::kStatement || next.kind != TileNode::Kind::kStatement) {
    return -1;
  }
  const TileStatement &p = product.statement, &sum = next.statement;
  if (!adds_to_carry(w.program, p, sum)) return -1;
  const TileRef &carry = sum.targets[0], &made = p.targets[0];
  const auto count = w.read_counts.find(made.symbol);
  const bool once = count != w.read_counts.end() && count->second == 1;
  const bool same = lie_alike(w.place_of(sum), unit_product(w.program, p)->result());
  const bool here = w.memory.buffer_of[static_cast<size_t>(carry.symbol)] < 0 &&
                    w.memory.buffer_of[static_cast<size_t>(made.symbol)] < 0;
  return once && same && here ? carry.symbol : -1;
}

void emit_matrix_product(GpuWriter& w, const TileStatement& statement, const UnitProduct& product,
                         TileSymbolId carry) {
  const TileRef& target = statement.targets[0];
  std::vector<TileVarId> vars;
  for (const IndexExpr& e : target.indices) vars.push_back(axis_of(w.program, e));
  vars.erase(std::remove_if(vars.begin(), vars.end(), [](TileVarId v) { return v < 0; }),
             vars.end());
  const Box box = w.make_box(vars, w.place_of(statement));
  const int rows = box.find(product.m), columns = box.find(product.n);
  const auto number = [&](int64_t row, int64_t column) {
    const int64_t a = rows < columns ? row : column, b = rows < columns ? column : row;
    return static_cast<size_t>(a * box.axes[static_cast<size_t>(std::max(rows, columns))].regs + b);
  };
  RegisterTile tile = make_tile(w, target, box);
  const auto zero = w.builder.constant({DType::kF32, 1}, float_value(DType::kF32, 0));
  std::vector<std::vector<Reg>> sums;
  for (int64_t i = 0; i < product.tiles_m; ++i) {
    for (int64_t j = 0; j < product.tiles_n; ++j) {
      std::vector<Reg> c(4, zero);
      for (int32_t r = 0; r < 4 && carry >= 0; ++r) {
        c[static_cast<size_t>(r)] =
            w.builder.extract(w.registers.tiles.at(carry).regs[number(2 * i + r / 2, j)], r % 2);
      }
      sums.push_back(std::move(c));
    }
  }
  if (product.by_group) {
    multiply_by_group(w, product, &sums);
  } else {
    multiply_by_warps(w, product, &sums);
  }
  for (int64_t i = 0; i < product.tiles_m; ++i) {
    for (int64_t j = 0; j < product.tiles_n; ++j) {
      const auto& c = sums[static_cast<size_t>(i * product.tiles_n + j)];
      tile.regs[number(2 * i, j)] = join_lanes(w, {c[0], c[1]});
      tile.regs[number(2 * i + 1, j)] = join_lanes(w, {c[2], c[3]});
    }
  }
  if (carry < 0) {
    w.registers.tiles[target.symbol] = std::move(tile);
  } else {
    w.registers.next[carry] = std::move(tile);
  }
}

}  // namespace weft::lowering
