#include "schedule/gpu/warp_rows.h"

#include <algorithm>
#include <bit>
#include <ranges>

#include "schedule/gpu/check_choice.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

constexpr int64_t kLanes = 32, kMostWarps = 8;
/// Elements of a thread: beyond, registers run out.
constexpr int64_t kMostHeld = 64;

int64_t product_of(const std::vector<Place::Digit>& digits, PlaceLevel level) {
  int64_t n = 1;
  for (const Place::Digit& d : digits) n *= d.level == level ? d.extent : 1;
  return n;
}

int64_t product_of(const AxisDigits& digits, PlaceLevel level) {
  int64_t n = 1;
  for (const auto& [axis, list] : digits) n *= product_of(list, level);
  return n;
}

/// The common axis that each index of a read is, -1 for the only element of a dimension; nothing
/// where an index is neither.
std::optional<std::vector<int>> axes_of_read(const GroupSpace& stage, int p, const Scalar& read) {
  std::vector<int> out;
  for (const IndexExpr& e : read.indices) {
    const std::vector<int>& own = stage.axes().axis_of[static_cast<size_t>(p)];
    if (e.is_const(0)) {
      out.push_back(-1);
    } else if (e.is_var() && e.var_id() < static_cast<int>(own.size())) {
      out.push_back(own[static_cast<size_t>(e.var_id())]);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

class WarpLayout {
 public:
  WarpLayout(const GroupSpace& stage, const RowsChoice& like) : stage_(stage), like_(like) {
    l_.vec_axis = like.vec_axis;
    l_.free = like.free;
    l_.row = like.row;
  }

  std::optional<RowsChoice> run(const std::map<TensorId, LaidOut>& made) {
    for (int p = 0; p < stage_.size() && agree_; ++p) {
      visit(stage_.expr(p).body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead) return;
        const auto known = made.find(s.symbol);
        if (known != made.end()) follow(p, s, known->second);
      });
    }
    if (!agree_) return std::nullopt;
    if (product_of(l_.digits, PlaceLevel::kWarp) == 1) put_on_warps();
    fill_warp();
    l_.warps = product_of(l_.digits, PlaceLevel::kWarp);
    std::erase_if(l_.digits, [](const auto& of_axis) { return of_axis.second.empty(); });
    const int64_t held =
        product_of(l_.digits, PlaceLevel::kReg) * product_of(l_.digits, PlaceLevel::kVec);
    const bool fits = held <= kMostHeld && l_.warps <= kMostWarps &&
                      product_of(l_.digits, PlaceLevel::kLane) <= kLanes;
    return fits ? std::optional(std::move(l_)) : std::nullopt;
  }

 private:
  int64_t extent(int axis) const { return stage_.axes().axes[static_cast<size_t>(axis)].extent; }

  void follow(int p, const Scalar& read, const LaidOut& made) {
    const auto axes = axes_of_read(stage_, p, read);
    if (!axes || axes->size() != made.size()) return;
    for (size_t d = 0; d < made.size(); ++d) {
      const int axis = (*axes)[d];
      if (axis < 0 || extent(axis) == 1 || extent(axis) != made[d].extent) continue;
      const auto [known, added] = l_.digits.emplace(axis, made[d].digits);
      agree_ &= added || known->second == made[d].digits;
    }
  }

  /// Axes that begin where a loop around the block stands, and have its step.
  void put_on_warps() {
    const BlockFrame& frame = *stage_.frame();
    for (const int a : l_.free) {
      const IndexExpr& begin = frame.axes[static_cast<size_t>(a)].begin;
      const int64_t n = extent(a);
      if (l_.digits.contains(a) || n > kMostWarps || !std::has_single_bit(uint64_t(n))) continue;
      if (!begin.is_var() || frame.loops[static_cast<size_t>(begin.var_id())] != n) continue;
      l_.digits[a] = {{PlaceLevel::kWarp, n}};
      return;
    }
  }

  /// The axes that are left, from the vectors outwards.
  void fill_warp() {
    ThreadTile tile(1, std::max<int64_t>(kLanes / product_of(l_.digits, PlaceLevel::kLane), 1));
    const bool vectors = product_of(l_.digits, PlaceLevel::kVec) == 1;
    const auto add = [&](int a) {
      if (l_.digits.contains(a)) return;
      const int64_t vec = a == l_.vec_axis && vectors
                              ? product_of(digits_along(like_.digits, a), PlaceLevel::kVec)
                              : 1;
      l_.digits[a] = tile.add(extent(a), vec, kLanes, 1, 0);
    };
    if (l_.vec_axis >= 0) add(l_.vec_axis);
    for (const int a : std::views::reverse(l_.row)) add(a);
    for (const int a : std::views::reverse(l_.free)) add(a);
  }

  const GroupSpace& stage_;
  const RowsChoice& like_;
  RowsChoice l_;
  bool agree_ = true;
};

/// Whether threads have all of a box at once, which is as long for each block.
bool at_once(const GroupSpace& stage, const RowsChoice& c) {
  const auto whole = [&](int a) {
    const int64_t extent = stage.axes().axes[static_cast<size_t>(a)].extent;
    const BlockFrame::Axis& own = stage.frame()->axes[static_cast<size_t>(a)];
    const IndexExpr length = simplify(own.end - own.begin, [](int) { return kUnbounded; });
    return length.is_const(extent) && digits_extent(digits_along(c.digits, a)) >= extent;
  };
  return c.resident && c.cross < 0 && c.parts == 1 && std::ranges::all_of(c.free, whole) &&
         std::ranges::all_of(c.row, whole);
}

}  // namespace

std::optional<RowsChoice> rows_in_warps(const GroupSpace& stage, const RowsChoice& like,
                                        const std::map<TensorId, LaidOut>& made) {
  auto out = WarpLayout(stage, like).run(made);
  return out && at_once(stage, *out) ? std::move(out) : std::nullopt;
}

std::map<TensorId, LaidOut> laid_out(const GroupSpace& stage, const RowsChoice& choice) {
  std::map<TensorId, LaidOut> out;
  if (!at_once(stage, choice)) return out;
  for (int p = 0; p < stage.size(); ++p) {
    if (!stage.is_output(p)) continue;
    LaidOut& own = out[stage.expr(p).output];
    for (int d = 0; d < stage.expr(p).output_rank(); ++d) {
      const int a = stage.axes().axis_of[static_cast<size_t>(p)][static_cast<size_t>(d)];
      own.push_back({stage.frame()->axes[static_cast<size_t>(a)].begin,
                     stage.axes().axes[static_cast<size_t>(a)].extent,
                     digits_along(choice.digits, a)});
    }
  }
  return out;
}

bool finds_in_warp(const GroupSpace& stage, const RowsChoice& choice, TensorId tensor,
                   const LaidOut& made) {
  if (!at_once(stage, choice)) return false;
  bool found = true;
  for (int p = 0; p < stage.size(); ++p) {
    visit(stage.expr(p).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || s.symbol != tensor) return;
      const auto axes = axes_of_read(stage, p, s);
      found &= axes.has_value() && axes->size() == made.size();
      for (size_t d = 0; found && d < made.size(); ++d) {
        const int a = (*axes)[d];
        if (a < 0) {
          found = made[d].extent == 1;
          continue;
        }
        found = stage.frame()->axes[static_cast<size_t>(a)].begin == made[d].begin &&
                stage.axes().axes[static_cast<size_t>(a)].extent == made[d].extent &&
                digits_along(choice.digits, a) == made[d].digits;
      }
    });
  }
  return found;
}

}  // namespace weft
