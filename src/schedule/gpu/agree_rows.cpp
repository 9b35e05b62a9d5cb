#include "schedule/gpu/agree_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "group/strides.h"
#include "schedule/gpu/check_choice.h"
#include "support/rounding.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

/// Elements that a thread may hold of a row that it keeps.
constexpr int64_t kMostHeld = 64;

/// By axis of more than one element: the elements between neighbours along it in the tensor.
std::optional<std::map<int, int64_t>> strides_in(const GroupSpace& space, TensorId tensor) {
  const GroupAxes& axes = space.axes();
  std::map<int, int64_t> out;
  bool found = false;
  const auto is_it = [&](TensorId t) { return space.original()[static_cast<size_t>(t)] == tensor; };
  const auto note = [&](const auto& stride_of) {
    if (found) return;
    found = true;
    for (size_t a = 0; a < axes.axes.size(); ++a) {
      if (axes.axes[a].extent > 1) out[static_cast<int>(a)] = stride_of(static_cast<int>(a));
    }
  };
  for (int p = 0; p < space.size(); ++p) {
    visit(space.expr(p).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || axes.producer(s.symbol) >= 0 || !is_it(s.symbol)) return;
      note([&](int a) { return stride_along(space.program(), axes, p, s, a); });
    });
    if (!space.is_output(p) || !is_it(space.expr(p).output)) continue;
    note([&](int a) { return output_stride_along(space.program(), axes, space.group(), p, a); });
  }
  return found ? std::optional(out) : std::nullopt;
}

/// By axis of `other`: the one of `space` along which the tensor lies alike. Empty where some axis
/// of either has none.
std::map<int, int> same_axes(const GroupSpace& space, const GroupSpace& other, TensorId tensor) {
  const auto own = strides_in(space, tensor), theirs = strides_in(other, tensor);
  if (!own || !theirs || own->size() != theirs->size()) return {};
  std::map<int, int> out;
  for (const auto& [axis, stride] : *theirs) {
    const int64_t extent = other.axes().axes[static_cast<size_t>(axis)].extent;
    const auto same = std::ranges::find_if(*own, [&](const auto& mine) {
      return stride > 0 && mine.second == stride &&
             space.axes().axes[static_cast<size_t>(mine.first)].extent == extent;
    });
    if (same == own->end()) return {};
    out[axis] = same->first;
  }
  return out;
}

bool contains(const std::vector<int>& list, int axis) {
  return std::ranges::find(list, axis) != list.end();
}

std::vector<int> reduced_axes(const GroupSpace& space) {
  std::vector<int> out;
  for (size_t a = 0; a < space.axes().axes.size(); ++a) {
    const GroupAxes::Axis& axis = space.axes().axes[a];
    if (axis.reduced && axis.extent > 1) out.push_back(static_cast<int>(a));
  }
  return out;
}

/// Two kernels that have a tensor in common.
class Agreement {
 public:
  Agreement(const RowsOf& model, const RowsOf& other, TensorId tensor, const BlocksOfLaunch& launch)
      : model_(model),
        other_(other),
        axis_of_(same_axes(other.space, model.space, tensor)),
        blocks_(launch.blocks),
        warps_(launch.warps) {}

  /// The model as it can be shared, and the other one like it.
  std::optional<std::pair<RowsChoice, RowsChoice>> run() const {
    const RowsChoice& c = model_.choice;
    if (axis_of_.empty() || c.cluster || c.cross >= 0 || c.together > 1) return std::nullopt;
    RowsChoice own = c;
    own.joins = own.keeps = false;
    own.blocks = own.kept_dims = 0;
    if (!make_rows(own)) return std::nullopt;
    while (own.warps < warps_ && widen(own)) own.warps *= 2;
    if (!fit_blocks(own) || !hold_rows(own)) return std::nullopt;
    RowsChoice like = own;
    like.vec_axis = own.vec_axis < 0 ? -1 : axis_of_.at(own.vec_axis);
    like.split = own.split < 0 ? -1 : axis_of_.at(own.split);
    like.free = renamed(own.free);
    like.row = renamed(own.row);
    like.digits.clear();
    for (const auto& [axis, digits] : own.digits) {
      if (axis_of_.count(axis) == 0) return std::nullopt;
      like.digits[axis_of_.at(axis)] = digits;
    }
    return std::pair(std::move(own), std::move(like));
  }

 private:
  std::vector<int> renamed(const std::vector<int>& axes) const {
    std::vector<int> out;
    for (const int a : axes) out.push_back(axis_of_.at(a));
    return out;
  }
  int64_t extent(int axis) const {
    return model_.space.axes().axes[static_cast<size_t>(axis)].extent;
  }

  /// What either reduces is the row of both. Where the model has it beside each other, a block has
  /// all of it.
  bool make_rows(RowsChoice& own) const {
    std::vector<int> wanted = reduced_axes(model_.space);
    const std::vector<int> theirs = reduced_axes(other_.space);
    for (const auto& [axis, other] : axis_of_) {
      if (contains(theirs, other) && !contains(wanted, axis)) wanted.push_back(axis);
    }
    if (wanted.empty()) return own.row.empty();
    const bool both = !reduced_axes(model_.space).empty() && !theirs.empty();
    if (both && (wanted.size() != theirs.size() || wanted.size() != own.row.size())) return false;
    for (const int a : own.row) {
      if (!contains(wanted, a)) return false;
    }
    for (const int a : wanted) {
      if (contains(own.row, a)) continue;
      if (digits_extent(digits_along(own.digits, a)) < extent(a)) return false;
    }
    std::vector<int> free;
    for (const int a : own.free) (contains(wanted, a) ? own.row : free).push_back(a);
    own.free = std::move(free);
    return true;
  }

  /// Twice the warps: for a row that has several elements a thread, else for more rows.
  bool widen(RowsChoice& own) const {
    for (const int a : own.row) {
      const int64_t length = a == own.split ? own.part : extent(a);
      std::vector<Place::Digit>& digits = own.digits[a];
      int64_t at_once = 1;  // without registers
      for (const Place::Digit& d : digits) at_once *= d.level == PlaceLevel::kReg ? 1 : d.extent;
      if (length <= at_once) continue;
      add_warps(digits);
      return true;
    }
    for (const int a : own.free) {
      std::vector<Place::Digit>& digits = own.digits[a];
      if (extent(a) <= digits_extent(digits)) continue;
      add_warps(digits);
      return true;
    }
    return false;
  }

  static void add_warps(std::vector<Place::Digit>& digits) {
    const auto warps = std::ranges::find(digits, PlaceLevel::kWarp, &Place::Digit::level);
    if (warps != digits.end()) {
      warps->extent *= 2;
      return;
    }
    const auto lanes = std::ranges::find_if(
        digits, [](const Place::Digit& d) { return d.level != PlaceLevel::kReg; });
    digits.insert(lanes, {PlaceLevel::kWarp, 2});
  }

  /// Boxes beside each other, without the parts of rows.
  int64_t boxes(const RowsChoice& own) const {
    int64_t n = 1;
    for (const int a : own.free)
      n *= ceil_div(extent(a), std::max<int64_t>(digits_extent(digits_along(own.digits, a)), 1));
    return n;
  }

  bool fit_blocks(RowsChoice& own) const {
    const int64_t beside = boxes(own);
    if (beside * own.parts <= blocks_) return true;
    if (own.split < 0) return share_blocks(own);
    const int64_t most_parts = blocks_ / beside;
    if (most_parts < 2) return false;
    constexpr int64_t kWhole = 4;  // vectors begin at multiples
    own.part = ceil_div(ceil_div(extent(own.split), most_parts), kWhole) * kWhole;
    own.parts = ceil_div(extent(own.split), own.part);
    return own.parts > 1;
  }

  /// More rows for a block, held side by side.
  bool share_blocks(RowsChoice& own) const {
    for (const int a : own.free) {
      if (a == own.vec_axis) continue;
      const int64_t beside = boxes(own);
      if (beside <= blocks_) return true;
      std::vector<Place::Digit>& digits = own.digits[a];
      const int64_t along = ceil_div(extent(a), digits_extent(digits));
      const int64_t left = std::max<int64_t>(blocks_ / (beside / along), 1);
      const int64_t rows = ceil_div(along, left);
      if (rows > 1) digits.insert(digits.begin(), {PlaceLevel::kReg, rows});
    }
    return boxes(own) <= blocks_;
  }

  /// All of a row, or of a block's part of it, in the registers of its threads.
  bool hold_rows(RowsChoice& own) const {
    own.resident = true;
    int64_t held = 1;
    for (const int a : own.row) {
      std::vector<Place::Digit>& digits = own.digits[a];
      std::erase_if(digits, [](const Place::Digit& d) { return d.level == PlaceLevel::kReg; });
      const int64_t turns = ceil_div(a == own.split ? own.part : extent(a), digits_extent(digits));
      if (turns > 1) digits.insert(digits.begin(), {PlaceLevel::kReg, turns});
      if (digits.empty()) own.digits.erase(a);
    }
    for (const auto& [axis, digits] : own.digits) {
      for (const Place::Digit& d : digits) {
        if (d.level == PlaceLevel::kReg || d.level == PlaceLevel::kVec) held *= d.extent;
      }
    }
    return held <= kMostHeld;
  }

  const RowsOf& model_;
  const RowsOf& other_;
  std::map<int, int> axis_of_;  ///< of the model's axes: the other's
  int64_t blocks_, warps_;
};

}  // namespace

std::vector<AgreeingRows> agreeing_rows(const RowsOf& first, const RowsOf& second, TensorId tensor,
                                        const BlocksOfLaunch& launch) {
  std::vector<AgreeingRows> out;
  if (auto like = Agreement(first, second, tensor, launch).run())
    out.push_back({std::move(like->first), std::move(like->second)});
  if (auto like = Agreement(second, first, tensor, launch).run())
    out.push_back({std::move(like->second), std::move(like->first)});
  return out;
}

}  // namespace weft
