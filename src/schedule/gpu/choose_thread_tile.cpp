#include "schedule/gpu/choose_thread_tile.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "expr/analysis/dependence.h"
#include "group/strides.h"
#include "schedule/gpu/choose_window_tile.h"
#include "support/rounding.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

constexpr int64_t kMostRows = 8;  ///< rows of results in one thread's registers
constexpr int64_t kOtherRegisters = 64;
constexpr int64_t kMostWarps = 8;
constexpr int64_t kColumnLanes = 8;

std::vector<const Scalar*> reads_of(const ScalarRef& body) {
  std::vector<const Scalar*> reads;
  visit(body, [&](const Scalar& s) {
    if (s.kind == Scalar::Kind::kRead) reads.push_back(&s);
  });
  return reads;
}

/// A read at axes as they are.
bool is_plain(const Scalar* read) {
  return read->operands.empty() && !read->fill &&
         std::ranges::all_of(read->indices, [](const IndexExpr& i) {
           return i.is_const() || (i.is_var() && i.var_id() < kRuntimeIndexBase);
         });
}

class ThreadTileChooser {
 public:
  ThreadTileChooser(const GroupSpace& space, const Target& target)
      : space_(space),
        axes_(space.axes()),
        target_(target),
        root_(axes_.reductions[0]),
        reads_(reads_of(space.expr(root_).body)) {}

  ThreadTilesChoice run() {
    choose_axes();
    if (std::optional<ThreadTilesChoice> window = choose_window_tile(space_, target_, out_))
      return std::move(*window);
    choose_tile();
    out_.shared = shared_operands(space_, out_).rows != nullptr;
    return std::move(out_);
  }

 private:
  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  bool depends(const Scalar& read, int axis) const {
    return stride_along(space_.program(), axes_, root_, read, axis) != 0;
  }
  void choose_axes();
  void choose_columns(const std::vector<int>& outputs);
  void choose_rows(const std::vector<int>& outputs);
  void order_reduction();
  int64_t registers_of(int64_t rows, int64_t columns) const;
  void choose_tile();

  const GroupSpace& space_;
  const GroupAxes& axes_;
  const Target& target_;
  int root_;
  std::vector<const Scalar*> reads_;
  ThreadTilesChoice out_;
};

void ThreadTileChooser::choose_axes() {
  const TensorExpr& e = space_.expr(root_);
  const auto& own = axes_.axis_of[static_cast<size_t>(root_)];
  std::vector<int> outputs;
  for (int d = 0; d < e.output_rank(); ++d) {
    const int a = own[static_cast<size_t>(d)];
    if (extent(a) != 1) outputs.push_back(a);
  }
  choose_columns(outputs);
  choose_rows(outputs);
  for (const int a : outputs) {
    if (a != out_.column_axis && a != out_.row_axis) out_.others.push_back(a);
  }
  order_reduction();
}

/// What is written, and read, one element after another.
void ThreadTileChooser::choose_columns(const std::vector<int>& outputs) {
  double best = 0;
  for (const int a : outputs) {
    double score = std::min<double>(static_cast<double>(extent(a)), 32) / 16;
    for (int p = 0; p < space_.size(); ++p) {
      if (output_stride_along(space_.program(), axes_, space_.group(), p, a) == 1) score += 2;
    }
    for (const Scalar* r : reads_) {
      const int64_t stride = stride_along(space_.program(), axes_, root_, *r, a);
      if (stride == 1) score += 1;
      if (stride > 1 || stride < 0) score -= 2;
    }
    if (out_.column_axis < 0 || score > best) {
      best = score;
      out_.column_axis = a;
    }
  }
}

/// An axis along which what the columns read is read again.
void ThreadTileChooser::choose_rows(const std::vector<int>& outputs) {
  double best = 0;
  for (const int a : outputs) {
    if (a == out_.column_axis) continue;
    bool reuses = false;
    for (const Scalar* r : reads_) reuses |= depends(*r, out_.column_axis) && !depends(*r, a);
    const double score =
        (reuses ? 100.0 : 0.0) + std::min<double>(static_cast<double>(extent(a)), 64);
    if (out_.row_axis < 0 || score > best) {
      best = score;
      out_.row_axis = a;
    }
  }
}

/// What lies furthest apart outermost.
void ThreadTileChooser::order_reduction() {
  const TensorExpr& e = space_.expr(root_);
  for (int a = e.output_rank(); a < e.axis_count(); ++a) {
    const int axis = axes_.axis_of[static_cast<size_t>(root_)][static_cast<size_t>(a)];
    if (extent(axis) != 1) out_.inner.push_back(axis);
  }
  const auto stride = [&](int axis) {
    int64_t s = 0;
    for (const Scalar* r : reads_) {
      s = std::max(s, stride_along(space_.program(), axes_, root_, *r, axis));
    }
    return s;
  };
  std::sort(out_.inner.begin(), out_.inner.end(), [&](int a, int c) {
    const int64_t sa = stride(a), sc = stride(c);
    return sa != sc ? sa > sc : a < c;
  });
}

/// Results, operands on their way, and addresses. Windows are written out by the compiler, which
/// loads about half of what they read ahead.
int64_t ThreadTileChooser::registers_of(int64_t rows, int64_t columns) const {
  constexpr int64_t kMostWrittenOut = 32;
  int64_t trips = 1;
  for (const int a : out_.inner) trips *= extent(a);
  int64_t loaded = 0;
  for (const Scalar* r : reads_) {
    const auto along = [&](int axis, int64_t n) {
      return axis >= 0 && stride_along(space_.program(), axes_, root_, *r, axis) != 0 ? n : 1;
    };
    loaded += along(out_.row_axis, rows) * along(out_.column_axis, columns);
  }
  const int64_t ahead = trips <= kMostWrittenOut ? ceil_div(loaded * trips, 2) : 0;
  return rows * columns + std::max(rows * columns, ahead) + kOtherRegisters;
}

/// The largest tile that still gives every SM a block.
void ThreadTileChooser::choose_tile() {
  const int64_t columns = out_.column_axis >= 0 ? extent(out_.column_axis) : 1;
  const int64_t rows = out_.row_axis >= 0 ? extent(out_.row_axis) : 1;
  const int64_t vec = access_elements(columns, 4, false);
  const int64_t column_lanes = std::min(kColumnLanes, power_above(ceil_div(columns, vec)));
  const int64_t row_lanes = std::min(32 / column_lanes, power_above(rows));
  int64_t others = 1;
  for (const int a : out_.others) others *= extent(a);
  int64_t best_warps = 1, best_rows = 1, best_columns = 1;
  double best = -1;
  for (int64_t warps = 1; warps <= kMostWarps; warps *= 2) {
    for (int64_t r = 1; r <= kMostRows; r *= 2) {
      for (int64_t c = 1; c * vec <= 8; c *= 2) {
        const int64_t tile_rows = warps * row_lanes * r, tile_columns = c * column_lanes * vec;
        const bool wasteful =
            (r * warps > 1 && tile_rows >= 2 * rows) || (c > 1 && tile_columns >= 2 * columns);
        const bool spills = registers_of(r, c * vec) > target_.registers_per_thread;
        if (wasteful || spills) continue;
        const int64_t blocks = others * ceil_div(rows, tile_rows) * ceil_div(columns, tile_columns);
        // A stage has the warps of one block, which goes through all tiles.
        const double waves = space_.frame()
                                 ? static_cast<double>(warps) / static_cast<double>(kMostWarps)
                                 : static_cast<double>(blocks * warps) / (4.0 * target_.sm_count);
        // Loads an FMA, and how much of the machine has work.
        const double loads = 1.0 / static_cast<double>(r) + 1.0 / static_cast<double>(c * vec);
        const double shared =
            1.0 / static_cast<double>(tile_rows) + 1.0 / static_cast<double>(tile_columns);
        const double score = std::min(1.0, waves) / (0.25 + loads + 4 * shared);
        if (score > best) {
          best = score;
          best_warps = warps;
          best_rows = r;
          best_columns = c;
        }
      }
    }
  }
  const auto add = [](std::vector<Place::Digit>* digits, PlaceLevel level, int64_t n) {
    if (n > 1) digits->push_back({level, n});
  };
  add(&out_.row_digits, PlaceLevel::kWarp, best_warps);
  add(&out_.row_digits, PlaceLevel::kLane, row_lanes);
  add(&out_.row_digits, PlaceLevel::kReg, best_rows);
  add(&out_.column_digits, PlaceLevel::kReg, best_columns);
  add(&out_.column_digits, PlaceLevel::kLane, column_lanes);
  add(&out_.column_digits, PlaceLevel::kVec, vec);
  if (out_.row_axis < 0) out_.row_digits.clear();
  out_.warps = out_.row_axis < 0 ? 1 : best_warps;
}

}  // namespace

ThreadTilesChoice choose_thread_tile(const GroupSpace& space, const Target& target) {
  return ThreadTileChooser(space, target).run();
}

SharedOperands shared_operands(const GroupSpace& space, const ThreadTilesChoice& choice) {
  const int root = space.axes().reductions[0];
  const ScalarRef& body = space.expr(root).body;
  if (body->kind != Scalar::Kind::kApply || body->op != ScalarOp::kMul) return {};
  if (choice.inner.size() != 1 || choice.row_axis < 0 || choice.column_axis < 0) return {};
  if (digits_extent(choice.row_digits) == 1 || digits_extent(choice.column_digits) == 1) return {};
  const int depth = choice.inner[0];
  if (space.axes().axes[static_cast<size_t>(depth)].extent < SharedOperands::kDepth) return {};
  const auto depends = [&](const std::vector<const Scalar*>& reads, int axis) {
    return std::ranges::any_of(reads, [&](const Scalar* r) {
      return stride_along(space.program(), space.axes(), root, *r, axis) != 0;
    });
  };
  SharedOperands out;
  for (const ScalarRef& factor : body->operands) {
    const std::vector<const Scalar*> reads = reads_of(factor);
    bool has_index = false;
    visit(factor, [&](const Scalar& s) { has_index |= s.kind == Scalar::Kind::kIndex; });
    if (has_index || !std::ranges::all_of(reads, is_plain) || !depends(reads, depth)) return {};
    const bool rows = depends(reads, choice.row_axis), columns = depends(reads, choice.column_axis);
    if (rows && !columns) out.rows = factor;
    if (columns && !rows) out.columns = factor;
  }
  return out.rows != nullptr && out.columns != nullptr ? out : SharedOperands{};
}

}  // namespace weft
