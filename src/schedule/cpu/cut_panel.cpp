#include "schedule/cpu/cut_panel.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "cost/footprint.h"
#include "group/strides.h"
#include "schedule/cpu/choose_panel.h"
#include "schedule/cpu/residues.h"
#include "support/rounding.h"

namespace weft {

namespace {

/// Each read of the reductions, with its reduction, that moves along the vectors or does not.
template <typename F>
void for_each_read(const GroupSpace& space, const PanelChoice& choice, bool along_vectors, F&& f) {
  size_t r = 0;
  for (const int root : space.axes().reductions) {
    visit(space.expr(root).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && (choice.vec_strides[r++] != 0) == along_vectors)
        f(root, s);
    });
  }
}

/// Steps of a reduction's sum.
int64_t steps_of(const GroupSpace& space, int root) {
  int64_t steps = 1;
  for (const int64_t n : space.expr(root).reduce_extents) steps *= n;
  return steps;
}

/// Bytes of a panel whose elements the rows read again.
int64_t panel_bytes(const GroupSpace& space, const PanelChoice& choice) {
  int64_t bytes = 0;
  for_each_read(space, choice, true, [&](int root, const Scalar& read) {
    bytes = choice.vectors * choice.lanes * byte_size(read.type) * steps_of(space, root);
  });
  return bytes;
}

/// How many times as much of the second cache a panel takes as it has bytes: steps of a sum that
/// lie apart share few of its sets.
double crowding(const GroupSpace& space, const PanelChoice& choice, const Target& target) {
  double most = 1;
  for_each_read(space, choice, true, [&](int root, const Scalar& read) {
    const int64_t bytes = byte_size(read.type), way = target.l2_bytes / kSecondCacheWays;
    const int64_t width = std::max<int64_t>(choice.vectors * choice.lanes * bytes / kLineBytes, 1);
    const int64_t step =
        stride_along(space.program(), space.axes(), root, read, choice.inner.back()) * bytes;
    const Tensor& tensor = space.program().tensors[static_cast<size_t>(read.symbol)];
    if (step <= width * kLineBytes || tensor.kind == Tensor::Kind::kConstant) return;
    const int64_t sets = std::min(width * sets_reached(step, way), way / kLineBytes);
    most = std::max(most, static_cast<double>(way / kLineBytes) / static_cast<double>(sets));
  });
  return most;
}

/// What a row reads of the reduction's operands that do not move along the vectors.
int64_t row_bytes(const GroupSpace& space, const PanelChoice& choice) {
  int64_t bytes = 0;
  for_each_read(space, choice, false, [&](int root, const Scalar& read) {
    if (stride_along(space.program(), space.axes(), root, read, choice.row_axis) != 0)
      bytes += byte_size(read.type) * steps_of(space, root);
  });
  return bytes;
}

/// A core's part of the third cache that one operand may fill.
double third_cache(const Target& target) {
  constexpr double kOfThird = 0.5;
  return kOfThird * static_cast<double>(target.l3_bytes) / std::max(target.threads, 1);
}

}  // namespace

std::vector<int> axes_inside_panel(const GroupSpace& space, const PanelChoice& choice) {
  std::vector<int> out = choice.grid;
  for_each_read(space, choice, true, [&](int root, const Scalar& read) {
    std::erase_if(out, [&](int a) {
      return stride_along(space.program(), space.axes(), root, read, a) != 0;
    });
  });
  return out;
}

std::vector<int> axes_inside_rows(const GroupSpace& space, const PanelChoice& choice) {
  constexpr int64_t kTimesAsLong = 4;
  if (choice.staged_read >= 0 || choice.staged_factor >= 0 || choice.row_axis < 0) return {};
  const auto& axes = space.axes().axes;
  std::vector<int> out;
  for (const int axis : choice.grid) {
    bool slides = false, leaps = false;
    const auto look = [&](int root, const Scalar& read) {
      const TensorExpr& e = space.expr(root);
      const auto& own = space.axes().axis_of[static_cast<size_t>(root)];
      for (const IndexExpr& index : read.indices) {
        bool along = false, in_sum = false;
        for (const int v : variables(index)) {
          if (v >= kRuntimeIndexBase) continue;
          const auto own_axis = static_cast<size_t>(own[static_cast<size_t>(v)]);
          along |= own[static_cast<size_t>(v)] == axis;
          // Of an open length the loops are the same at any.
          in_sum |= v >= e.output_rank() && !axes[own_axis].open &&
                    axes[own_axis].extent >= kTimesAsLong * axes[static_cast<size_t>(axis)].extent;
        }
        (in_sum ? slides : leaps) |= along;
      }
    };
    for_each_read(space, choice, true, look);
    for_each_read(space, choice, false, look);
    if (slides && !leaps && !axes[static_cast<size_t>(axis)].open) out.push_back(axis);
  }
  return out;
}

bool outgrows_third_cache(const GroupSpace& space, const PanelChoice& choice,
                          const Target& target) {
  const int64_t rows = space.axes().axes[static_cast<size_t>(choice.row_axis)].extent;
  return static_cast<double>(rows) * static_cast<double>(row_bytes(space, choice)) >
         third_cache(target);
}

std::vector<PanelChoice> panels_in_parts(const GroupSpace& space, const PanelChoice& whole,
                                         const Target& target) {
  constexpr double kOutgrows = 0.4, kOfPart = 0.25, kOfSums = 0.125;  // of the second cache
  constexpr int64_t kFewestTiles = 4, kMostParts = 16, kWholeSteps = 16, kOpenRows = 192;
  const auto second = static_cast<double>(target.l2_bytes);
  const auto& axes = space.axes().axes;
  const auto extent = [&](int a) { return axes[static_cast<size_t>(a)].extent; };
  const auto is_open = [&](int a) { return axes[static_cast<size_t>(a)].open; };
  const bool plain = space.axes().reductions.size() == 1 && whole.vec_axis >= 0 &&
                     whole.row_axis >= 0 && whole.depth == 1 && whole.apart == 0 &&
                     whole.staged_read < 0 && whole.staged_factor < 0 && !whole.inner.empty();
  const auto bytes =
      plain ? crowding(space, whole, target) * static_cast<double>(panel_bytes(space, whole)) : 0;
  if (bytes <= kOutgrows * second || is_open(whole.inner.front()) ||
      !residues_of(space, space.axes().reductions[0], whole.vec_axis).empty())
    return {};
  const int64_t wanted =
      std::min(static_cast<int64_t>(std::ceil(bytes / (kOfPart * second))), kMostParts);
  PanelChoice out = choose_panel(space, target, wanted);
  // A batch of few images is too short.
  const auto long_enough = [&](int a) { return !is_open(a) && extent(a) >= wanted; };
  const auto first = std::find_if(out.inner.begin(), out.inner.end() - 1, long_enough);
  if (first != out.inner.end() - 1) std::rotate(out.inner.begin(), first, first + 1);
  const int64_t steps = extent(out.inner.front()), parts = std::min(wanted, steps);
  out.rows_outermost = false;
  out.part = ceil_div(steps, parts);
  if (out.part >= 4 * kWholeSteps) out.part = round_up(out.part, kWholeSteps);
  // As many rows as wait beside a part's panel.
  const std::vector<int> beside = axes_inside_panel(space, out);
  const auto most = static_cast<int64_t>(kOfSums * second) /
                    (out.vectors * out.lanes * static_cast<int64_t>(sizeof(float)));
  // Of an open number blocks have as many whatever it is.
  const bool open = is_open(out.row_axis);
  const int64_t rows = open ? std::min(most, kOpenRows) / out.rows * out.rows
                            : round_up(extent(out.row_axis), out.rows);
  int64_t waiting = rows;
  for (const int a : std::views::reverse(beside)) {
    if (is_open(a) || waiting * extent(a) > most) break;
    waiting *= extent(a);
    ++out.part_axes;
  }
  // Blocks of rows that come from memory go by all panels, one block after another.
  const bool by_blocks = !open && beside.empty() && outgrows_third_cache(space, out, target);
  std::vector<PanelChoice> all;
  for (int64_t cuts = ceil_div(std::max(rows, out.rows), std::max(most, out.rows));
       all.size() < (open ? 1 : 3); cuts *= 2) {
    out.part_rows = round_up(ceil_div(rows, cuts), out.rows);
    const int64_t tiles = waiting / rows * (out.part_rows / out.rows);
    if (tiles < kFewestTiles) break;
    out.rows_outermost = by_blocks && out.part_rows < extent(out.row_axis);
    all.push_back(out);
  }
  return out.part < steps ? all : std::vector<PanelChoice>();
}

std::vector<PanelChoice> panels_in_chunks(const GroupSpace& space, const PanelChoice& whole,
                                          const Target& target) {
  constexpr double kOfSecond = 0.7, kFewest = 0.25;
  constexpr int64_t kFewestTiles = 8;
  const auto& axes = space.axes().axes;
  const bool plain = space.axes().reductions.size() == 1 && whole.vec_axis >= 0 &&
                     whole.row_axis >= 0 && !whole.rows_outermost && whole.apart == 0 &&
                     whole.staged_factor < 0 && !whole.inner.empty();
  if (!plain || axes[static_cast<size_t>(whole.row_axis)].open ||
      !axes_inside_panel(space, whole).empty() ||
      !residues_of(space, space.axes().reductions[0], whole.vec_axis).empty())
    return {};
  const int64_t rows = axes[static_cast<size_t>(whole.row_axis)].extent;
  const auto of_row = static_cast<double>(std::max<int64_t>(row_bytes(space, whole), 1));
  if (of_row * static_cast<double>(rows) < kFewest * third_cache(target)) return {};
  const double beside_panel = kOfSecond * static_cast<double>(target.l2_bytes) -
                              static_cast<double>(panel_bytes(space, whole));
  std::vector<PanelChoice> all;
  for (const double budget : {beside_panel, third_cache(target) / 2, third_cache(target)}) {
    PanelChoice out = whole;
    out.rows_outermost = true;
    out.part_rows = static_cast<int64_t>(std::max(budget, 0.0) / of_row) / out.rows * out.rows;
    if (out.part_rows >= kFewestTiles * out.rows && 2 * out.part_rows <= rows)
      all.push_back(std::move(out));
  }
  return all;
}

}  // namespace weft
