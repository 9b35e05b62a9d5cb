#include "schedule/gpu/row_layout.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "group/repeated_reads.h"
#include "group/strides.h"
#include "schedule/gpu/requested_bytes.h"
#include "schedule/gpu/row_time.h"
#include "support/check.h"
#include "support/rounding.h"
#include "tile/thread_tile.h"

namespace weft {

namespace {

/// Elements of a row that one thread may hold of each value: beyond, registers run out.
constexpr int64_t kMostHeld = 64;
/// Elements that a thread should have before a row is given more warps.
constexpr int64_t kEnoughHeld = 16;
constexpr int64_t kMostWarps = 32;
/// Warps of a block whose rows or elements need no common memory.
constexpr int64_t kFreeWarps = 8;
constexpr int64_t kMostParts = 512;
/// What is read again, beside what is moved once, that does not matter.
constexpr double kFewRequests = 0.018;
/// Predictions that say the same.
constexpr double kAlike = 1.1;
/// Parts of a row that one thread combines at most.
constexpr int64_t kMostTurns = 16;

class LayoutChoice {
 public:
  LayoutChoice(const GroupSpace& space, const JoinedGroup& joined, const Target& target)
      : space_(space),
        axes_(space.axes()),
        joined_(joined),
        target_(target),
        time_(space, joined, target) {
    choose_vector_axis();
    if (base_.vec_axis >= 0) widest_element_ = widest_element();
    walked_ = axes_to_walk(time_.repeated(), axes_);
  }

  std::vector<RankedRows> run() {
    std::vector<RankedRows> out = base_.row.empty() ? without_rows() : with_rows();
    for (RankedRows& ranked : out) {
      std::erase_if(ranked.choice.digits,
                    [](const auto& of_axis) { return of_axis.second.empty(); });
    }
    return out;
  }

 private:
  std::vector<RankedRows> without_rows() const {
    std::vector<RankedRows> out = crossing();
    RowsChoice last = elementwise();
    if (auto walking = out.empty() ? walking_elementwise() : std::nullopt) {
      const double us = time_.elementwise_time(*walking);
      if (us < time_.elementwise_time(last)) out.push_back({std::move(*walking), us});
    }
    out.push_back({std::move(last), std::nullopt});
    return out;
  }

  /// Of equals the one that splits less, keeps rows, and has wider accesses and smaller blocks.
  std::vector<RankedRows> with_rows() const {
    std::vector<RankedRows> out;
    for (const Split& split : splits()) {
      for (const Threads& threads : thread_shapes()) {
        for (const bool resident : {true, false}) {
          auto layout = rows(split, threads, resident);
          if (!layout) continue;
          if (resident && split.parts == 1) add_walking(threads, &out);
          out.push_back(std::move(*layout));
        }
      }
    }
    std::vector<size_t> order(out.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](size_t i) {
      return std::tuple(*out[i].microseconds, out[i].choice.parts, !out[i].choice.resident, i);
    });
    std::vector<RankedRows> ranked;
    for (const size_t i : order) ranked.push_back(std::move(out[i]));
    // Rows that no warps share need no shared memory.
    Threads alone = thread_shapes().front();
    alone.most_warps = 1;
    auto last = rows({}, alone, false);
    WEFT_CHECK(last.has_value(), "sweeps of one block lie on any device");
    ranked.push_back(std::move(*last));
    return ranked;
  }

  int64_t extent(int axis) const { return axes_.axes[static_cast<size_t>(axis)].extent; }
  const TensorExpr& expr(int p) const { return space_.expr(p); }
  int count() const { return space_.size(); }
  bool is_output(int p) const { return space_.is_output(p); }
  const TensorType& type_of(TensorId t) const {
    return space_.program().tensors[static_cast<size_t>(t)].type;
  }
  static int64_t product(const std::vector<int>& list, const RowsChoice& l, const GroupAxes& axes) {
    int64_t n = 1;
    for (const int a : list) n *= a == l.split ? l.part : axes.axes[static_cast<size_t>(a)].extent;
    return n;
  }

  /// Calls f(elements between neighbours along the axis, tensor) for what comes from or goes to
  /// memory.
  template <typename F>
  void each_access(int axis, F&& f) const {
    for (int p = 0; p < count(); ++p) {
      visit(expr(p).body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0)
          f(stride_along(space_.program(), axes_, p, s, axis), s.symbol);
      });
      if (is_output(p))
        f(output_stride_along(space_.program(), axes_, space_.group(), p, axis), expr(p).output);
    }
  }

  void choose_vector_axis();
  int64_t widest_element() const;
  int64_t vector_elements(const RowsChoice& l) const;
  /// How many blocks share a row.
  struct Split {
    int64_t parts = 1;
    bool cluster = false;
  };
  std::vector<Split> splits() const;
  RowsChoice elementwise() const;
  std::vector<RankedRows> crossing() const;
  static void lay_out_tile(int64_t loaded, int64_t stored, RowsChoice* l);
  int cross_axis() const;
  /// How many threads a row gets.
  struct Threads {
    int64_t vector_lanes = 32;        ///< along the vector axis where that is not the row's
    int64_t most_warps = kMostWarps;  ///< of a row
    int64_t held = kEnoughHeld;       ///< elements of a thread before a row is given more warps
    int64_t free_warps = kFreeWarps;  ///< for rows beside each other
  };
  std::vector<Threads> thread_shapes() const;
  bool row_vector() const { return axes_.axes[static_cast<size_t>(base_.vec_axis)].reduced; }
  std::optional<RankedRows> rows(const Split& split, const Threads& threads, bool resident,
                                 bool walks = false, int64_t together = 1) const;
  void add_walking(Threads threads, std::vector<RankedRows>* out) const;
  bool walk(bool rows_span_warps, RowsChoice* l) const;
  std::optional<RowsChoice> walking_elementwise() const;
  bool choose_parts(const Split& split, RowsChoice* l) const;
  void lay_out_rows(const Threads& threads, RowsChoice* l) const;
  double bytes_of(TensorId t) const {
    const TensorType& type = type_of(t);
    return static_cast<double>(checked_byte_size(type.dtype, type.shape).value_or(INT64_MAX));
  }

  const GroupSpace& space_;
  const GroupAxes& axes_;
  const JoinedGroup& joined_;
  const Target& target_;
  RowTime time_;
  RowsChoice base_;             ///< axes only
  int64_t widest_element_ = 1;  ///< bytes
  std::set<int> walked_;        ///< axes of the grid along which most of that stays the same
};

/// The axis along which most bytes lie one after another.
void LayoutChoice::choose_vector_axis() {
  std::vector<int> all;
  for (size_t a = 0; a < axes_.axes.size(); ++a) {
    if (axes_.axes[a].extent != 1) all.push_back(static_cast<int>(a));
  }
  double best = 0;
  for (const int a : all) {
    double score = 0, moved = 1;
    each_access(a, [&](int64_t stride, TensorId t) {
      const double bytes = bytes_of(t);
      moved = std::max(moved, bytes);
      if (stride == 1) score += 4 * bytes;
      if (stride > 1 || stride < 0) score -= bytes;
    });
    // Of reads and stores that lie across each other, the stores are in order.
    for (int p = 0; p < count(); ++p) {
      if (is_output(p) && output_stride_along(space_.program(), axes_, space_.group(), p, a) == 1) {
        score += bytes_of(expr(p).output) / 2;
      }
    }
    score = score / moved + std::min(static_cast<double>(extent(a)), 128.0) / 1024;
    if (base_.vec_axis < 0 || score > best) {
      best = score;
      base_.vec_axis = a;
    }
  }
  // Outermost first, by the strides of the widest output.
  int main = count() - 1;
  for (int p = 0; p < count(); ++p) {
    if (is_output(p) && axes_.axis_of[static_cast<size_t>(p)].size() >=
                            axes_.axis_of[static_cast<size_t>(main)].size())
      main = p;
  }
  std::sort(all.begin(), all.end(), [&](int a, int c) {
    if ((a == base_.vec_axis) != (c == base_.vec_axis)) return c == base_.vec_axis;
    const int64_t sa = output_stride_along(space_.program(), axes_, space_.group(), main, a);
    const int64_t sc = output_stride_along(space_.program(), axes_, space_.group(), main, c);
    return sa != sc ? sa > sc : a < c;
  });
  for (const int a : all) {
    (axes_.axes[static_cast<size_t>(a)].reduced ? base_.row : base_.free).push_back(a);
  }
}

/// Of what lies element after element along the vector axis.
int64_t LayoutChoice::widest_element() const {
  int64_t widest = 1;
  each_access(base_.vec_axis, [&](int64_t stride, TensorId t) {
    if (stride == 1) widest = std::max(widest, byte_size(type_of(t).dtype));
  });
  return widest;
}

int64_t LayoutChoice::vector_elements(const RowsChoice& l) const {
  const bool alone = l.free.size() + l.row.size() == 1;
  return access_elements(extent(l.vec_axis), widest_element_, alone);
}

RowsChoice LayoutChoice::elementwise() const {
  RowsChoice l = base_;
  l.warps = 1;
  if (l.vec_axis < 0) return l;
  const int64_t vec = vector_elements(l);
  // Several vectors a thread where there are more than enough blocks all the same.
  const int64_t total = product(l.free, l, axes_);
  const int64_t enough = int64_t{target_.sm_count} * 8 * kFreeWarps * 32 * vec;
  const int64_t regs = std::clamp<int64_t>(total / std::max<int64_t>(enough, 1), 1, 4);
  ThreadTile tile(kFreeWarps);
  for (auto a = l.free.rbegin(); a != l.free.rend(); ++a) {
    const bool first = *a == l.vec_axis;
    l.digits[*a] = tile.add(extent(*a), first ? vec : 1, 32, kFreeWarps, first ? regs : 1);
  }
  l.warps = kFreeWarps / tile.warps_left();
  return l;
}

/// The axis along which most of what lies across the vector axis is contiguous, if there is any
/// worth a tile.
int LayoutChoice::cross_axis() const {
  constexpr int64_t kWorthTiling = 8;
  if (base_.vec_axis < 0 || extent(base_.vec_axis) < kWorthTiling) return -1;
  int best = -1;
  double most = 0;
  for (const int b : base_.free) {
    if (b == base_.vec_axis || extent(b) < kWorthTiling) continue;
    double bytes = 0;
    for (int p = 0; p < count(); ++p) {
      visit(expr(p).body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0 &&
            crosses(space_.program(), axes_, p, s, base_.vec_axis, b)) {
          bytes += bytes_of(s.symbol);
        }
      });
    }
    if (bytes <= most) continue;
    most = bytes;
    best = b;
  }
  return best;
}

/// Tiles with wide accesses on both sides, narrower ones where those would meet in the banks of
/// shared memory.
std::vector<RankedRows> LayoutChoice::crossing() const {
  const int cross = cross_axis();
  if (cross < 0) return {};
  int64_t widest = 1;
  for (int p = 0; p < count(); ++p) {
    visit(expr(p).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0 &&
          crosses(space_.program(), axes_, p, s, base_.vec_axis, cross)) {
        widest = std::max(widest, byte_size(s.type));
      }
    });
  }
  const int64_t loaded = std::min<int64_t>(access_elements(extent(cross), widest, false), 8);
  const int64_t stored = std::min<int64_t>(vector_elements(base_), 8);
  std::vector<RankedRows> out;
  for (int64_t narrower = 1; narrower <= std::max(loaded, stored); narrower *= 2) {
    for (const auto& [l, s] : {std::pair(loaded / narrower, stored / narrower),
                               {loaded / narrower, stored / narrower / 2},
                               {loaded / narrower / 2, stored / narrower}}) {
      if (l < 1 || s < 1) continue;
      out.push_back({base_, std::nullopt});
      out.back().choice.cross = cross;
      lay_out_tile(l, s, &out.back().choice);
    }
  }
  return out;
}

/// Lanes of 16 bytes each lie beside each other for 128 bytes, single elements over a whole warp;
/// the other lanes and the warps take further rows of the tile.
void LayoutChoice::lay_out_tile(int64_t loaded, int64_t stored, RowsChoice* l) {
  constexpr int64_t kRowsBeside = 4;
  const auto lanes = [](int64_t vec) { return std::max<int64_t>(32 / vec, 32 / kRowsBeside); };
  const int64_t along = lanes(stored) * stored, across = lanes(loaded) * loaded;
  const auto digits = [](int64_t n, int64_t lanes_left, int64_t warps) {
    std::vector<Place::Digit> out;
    const int64_t regs = ceil_div(n, lanes_left * warps);
    for (const Place::Digit d : {Place::Digit{PlaceLevel::kReg, regs},
                                 {PlaceLevel::kWarp, warps},
                                 {PlaceLevel::kLane, lanes_left}}) {
      if (d.extent > 1) out.push_back(d);
    }
    return out;
  };
  const auto vectors = [](int64_t n, int64_t vec) {
    std::vector<Place::Digit> out;
    if (n > 1) out.push_back({PlaceLevel::kLane, n});
    if (vec > 1) out.push_back({PlaceLevel::kVec, vec});
    return out;
  };
  l->warps = std::min({kFreeWarps, across / (32 / lanes(stored)), along / (32 / lanes(loaded))});
  l->digits[l->vec_axis] = vectors(lanes(stored), stored);
  l->digits[l->cross] = digits(across, 32 / lanes(stored), l->warps);
  l->cross_digits[l->cross] = vectors(lanes(loaded), loaded);
  l->cross_digits[l->vec_axis] = digits(along, 32 / lanes(loaded), l->warps);
}

/// How many blocks may share a row: powers of two, and what fills the device.
std::vector<LayoutChoice::Split> LayoutChoice::splits() const {
  std::vector<Split> out{{}};
  for (int64_t p = 2; p <= target_.cluster_blocks; p *= 2) out.push_back({p, true});
  if (!target_.grid_barriers) return out;
  for (int64_t p = 2; p <= kMostParts; p *= 2) out.push_back({p, false});
  const int64_t rows = std::max<int64_t>(product(base_.free, base_, axes_), 1);
  for (const int64_t blocks : {target_.sm_count, 2 * target_.sm_count}) {
    const int64_t p = blocks / rows;
    if (p > 1 && p <= kMostParts) out.push_back({p, false});
  }
  return out;
}

/// Cuts the longest axis of a row. False where it is too short for so many parts.
bool LayoutChoice::choose_parts(const Split& split, RowsChoice* l) const {
  const int64_t parts = split.parts;
  if (parts == 1) return true;
  l->cluster = split.cluster;
  l->split = *std::max_element(l->row.begin(), l->row.end(),
                               [&](int a, int b) { return extent(a) < extent(b); });
  const bool vectors = l->split == l->vec_axis;
  const int64_t unit = vectors ? 32 * vector_elements(*l) : 8;
  l->part = ceil_div(ceil_div(extent(l->split), parts), unit) * unit;
  l->parts = ceil_div(extent(l->split), l->part);
  return l->parts > 1 && l->parts * 2 > parts;
}

/// Rows that lie along the vectors may give a thread more or fewer elements. Columns may have
/// fewer lanes side by side, at least 128 bytes of them, and more rows at a time.
std::vector<LayoutChoice::Threads> LayoutChoice::thread_shapes() const {
  if (row_vector()) {
    return {{32, kMostWarps / 2, 2 * kEnoughHeld},
            {32, kMostWarps, 2 * kEnoughHeld},
            {32, kMostWarps, kEnoughHeld}};
  }
  std::vector<Threads> out;
  const int64_t bytes = vector_elements(base_) * widest_element_;
  for (const int64_t lanes : {32, 16, 8}) {
    if (lanes < 32 && lanes * bytes < 128) continue;
    for (const int64_t warps : {8, 16, 32}) out.push_back({lanes, warps, 4});
  }
  return out;
}

/// Layouts whose blocks take several boxes of the grid, few of them resident with as many threads
/// as keep the device busy: each asks once for what its rows have in common. Where that is much
/// beside what is moved, clusters of them do, if that is predicted to take about as long.
void LayoutChoice::add_walking(Threads threads, std::vector<RankedRows>* out) const {
  if (walked_.empty() || !row_vector() || space_.frame()) return;
  for (const int64_t warps : {kFreeWarps, 2 * kFreeWarps, 4 * kFreeWarps}) {
    threads.free_warps = warps;
    auto layout = rows(Split{}, threads, true, true);
    if (!layout) continue;
    // A prediction is not that sharp.
    const double at_most = kAlike * *layout->microseconds;
    const double few = kFewRequests * time_.bytes_moved(layout->choice);
    for (int64_t together = 2; together <= target_.cluster_blocks; together *= 2) {
      if (requested_bytes(time_.repeated(), layout->choice, axes_) <= few) break;
      auto shares = rows(Split{}, threads, true, true, together);
      if (shares && *shares->microseconds <= at_most) layout = std::move(shares);
    }
    out->push_back(std::move(*layout));
  }
}

/// Makes a layout's blocks walk. Axes along which they do come last in the grid. False where an SM
/// has one block alone that waits for all of its warps with each row: nothing hides that.
bool LayoutChoice::walk(bool rows_span_warps, RowsChoice* l) const {
  const int64_t per_sm = kRoomyThreads / (l->warps * 32);
  if (per_sm < (rows_span_warps ? 2 : 1)) return false;
  const int64_t resident = blocks_in_clusters(target_, l->together, per_sm);
  if (resident < l->together) return false;
  std::vector<int> kept, walked;
  for (const int a : l->free) (walked_.count(a) != 0 ? walked : kept).push_back(a);
  l->kept_dims = static_cast<int64_t>(kept.size());
  l->free = kept;
  l->free.insert(l->free.end(), walked.begin(), walked.end());
  l->keeps = true;
  const int64_t boxes = boxes_of(*l, axes_);
  const int64_t turns = ceil_div(boxes, resident);
  l->blocks = ceil_div(ceil_div(boxes, turns), l->together) * l->together;
  if (l->together > 1 && l->blocks > resident) return false;
  l->per_sm = ceil_div(l->blocks, target_.sm_count);
  return true;
}

/// A thread has several elements along the axis on which operands stay the same.
std::optional<RowsChoice> LayoutChoice::walking_elementwise() const {
  constexpr int64_t kElementsBeside = 4, kMostElements = 16;
  if (walked_.empty() || space_.frame()) return std::nullopt;
  RowsChoice l = base_;
  const int64_t vec = vector_elements(l);
  ThreadTile tile(kFreeWarps);
  bool first = true;
  for (auto a = l.free.rbegin(); a != l.free.rend(); ++a) {
    const bool beside = first && walked_.count(*a) != 0;
    l.digits[*a] =
        tile.add(extent(*a), *a == l.vec_axis ? vec : 1, 32, kFreeWarps,
                 beside ? std::clamp<int64_t>(kMostElements / vec, 1, kElementsBeside) : 1);
    first &= !beside;
  }
  l.warps = kFreeWarps / tile.warps_left();
  if (!walk(false, &l)) return std::nullopt;
  return l;
}

std::optional<RankedRows> LayoutChoice::rows(const Split& split, const Threads& threads,
                                             bool resident, bool walks, int64_t together) const {
  RowsChoice l = base_;
  l.resident = resident;
  l.together = together;
  l.joins = !joined_.moments.empty() && (!resident || split.parts > 1);
  if (!choose_parts(split, &l)) return std::nullopt;
  lay_out_rows(threads, &l);
  int64_t held = 1, combining = 1;
  bool rows_span_warps = false;
  for (const auto& [a, digits] : l.digits) {
    const bool reduced = axes_.axes[static_cast<size_t>(a)].reduced;
    for (const Place::Digit& d : digits) {
      const bool own = d.level == PlaceLevel::kReg || d.level == PlaceLevel::kVec;
      if (own) held *= d.extent;
      if (!own && reduced) combining *= d.extent;
      rows_span_warps |= reduced && d.level == PlaceLevel::kWarp;
    }
  }
  // What nothing reads again need not be kept.
  const int64_t most_held = time_.row_goes_on(l) ? kMostHeld : kEnoughHeld;
  if (held > most_held && resident) return std::nullopt;
  if (l.parts > 1 && !l.cluster) {
    // A barrier of the grid: all blocks are on the device at once.
    l.per_sm = ceil_div(boxes_of(l, axes_), target_.sm_count);
    if (l.per_sm * l.warps * 32 > std::min<int64_t>(kRoomyThreads, target_.threads_per_sm)) {
      return std::nullopt;
    }
  }
  if (l.parts > 1 && l.parts > combining * kMostTurns) return std::nullopt;
  if (walks && !walk(rows_span_warps, &l)) return std::nullopt;
  const std::optional<double> us = time_.microseconds(l);
  return RankedRows{std::move(l), us};
}

void LayoutChoice::lay_out_rows(const Threads& threads, RowsChoice* l) const {
  const int64_t vec = vector_elements(*l);
  const auto length = [&](int a) { return a == l->split ? l->part : extent(a); };
  const int64_t row_elements = product(l->row, *l, axes_);

  // Warps that share a row: as many as leave each thread enough of it.
  int64_t row_warps = 1;
  const int64_t lanes = row_vector() ? 32 : 32 / threads.vector_lanes;
  while (row_warps < threads.most_warps && row_elements > row_warps * lanes * threads.held) {
    row_warps *= 2;
  }
  ThreadTile tile(std::max(row_warps, threads.free_warps));
  if (row_vector()) {
    if (row_warps > 1 && threads.free_warps == kFreeWarps) tile = ThreadTile(row_warps);
    for (auto a = l->row.rbegin(); a != l->row.rend(); ++a) {
      const bool first = *a == l->vec_axis;
      const int64_t regs = l->resident ? 0 : !first ? 1 : time_.row_goes_on(*l) ? 2 : 4;
      l->digits[*a] = tile.add(length(*a), first ? vec : 1, 32, row_warps, regs);
    }
    for (auto a = l->free.rbegin(); a != l->free.rend(); ++a) {
      l->digits[*a] = tile.add(extent(*a), 1, 32, threads.free_warps, 1);
    }
  } else {
    const int64_t beside = std::max<int64_t>(kFreeWarps / row_warps, 1);
    l->digits[l->vec_axis] = tile.add(extent(l->vec_axis), vec, threads.vector_lanes, beside, 1);
    for (auto a = l->row.rbegin(); a != l->row.rend(); ++a) {
      l->digits[*a] = tile.add(length(*a), 1, tile.lanes_left(), row_warps, l->resident ? 0 : 4);
    }
    for (auto a = l->free.rbegin(); a != l->free.rend(); ++a) {
      if (*a != l->vec_axis) {
        l->digits[*a] = tile.add(extent(*a), 1, 32, row_warps == 1 ? kFreeWarps : 1, 1);
      }
    }
  }
  l->warps = 1;
  for (const auto& [a, list] : l->digits) {
    for (const Place::Digit& d : list) l->warps *= d.level == PlaceLevel::kWarp ? d.extent : 1;
  }
}

}  // namespace

std::vector<RankedRows> row_layouts(const GroupSpace& space, const JoinedGroup& joined,
                                    const Target& target) {
  return LayoutChoice(space, joined, target).run();
}

}  // namespace weft
