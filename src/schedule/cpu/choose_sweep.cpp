#include "schedule/cpu/choose_sweep.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <set>

#include "cost/operation_cost.h"
#include "group/strides.h"
#include "schedule/cpu/lanes_of_groups.h"

namespace weft {

namespace {

/// Rows longer than this many bytes are computed again rather than kept: they would not stay in a
/// core's second-level cache.
int64_t row_budget(const Target& target) { return target.l2_bytes / 2; }

/// Work items that give every thread several.
constexpr int64_t kItemsPerThread = 4;
/// Rows that are in a tile together at most.
constexpr int64_t kMostRows = 4;

/// Rows that share what lanes gather for all of them.
constexpr int64_t kGatheringRows = 8;

/// The longest axis that is written out for what its steps share.
constexpr int64_t kMostSharing = 4;

/// Chooses the loops of a CPU's rows.
class SweepChooser {
 public:
  SweepChooser(const GroupSpace& space, const Target& target)
      : space_(space), axes_(space.axes()), target_(target) {}

  SweepChoice run() {
    choose_axes();
    decide_kept();
    return c_;
  }
  /// After run(): with these rows and vectors in a tile, or nothing where the group does not have
  /// them.
  std::optional<SweepChoice> with_tile(int64_t rows, int64_t vectors);

 private:
  std::vector<int> physical_order(std::vector<int> list) const;
  void choose_axes();
  struct Shares;
  std::vector<Shares> shares() const;
  double most_elements() const;
  bool is_table(const Scalar& read, double elements) const;
  void choose_vector_axis(const std::vector<int>& all);
  int choose_row_axis() const;
  bool gathers_for_all_rows() const;
  int64_t most_vectors() const;
  int axis_of_shared_reads() const;
  bool shares_reads(int axis) const;
  std::optional<int64_t> bytes_of_row(int axis) const;
  void choose_rows();
  void decide_kept();
  bool is_inner(int axis) const { return std::ranges::find(c_.inner, axis) != c_.inner.end(); }
  bool is_row_value(int p) const { return is_value_of_row(space_, c_, p); }

  const GroupSpace& space_;
  const GroupAxes& axes_;
  const Target& target_;
  SweepChoice c_;
};

}  // namespace

bool is_value_of_row(const GroupSpace& space, const SweepChoice& choice, int position) {
  if (space.reduces(position)) return false;
  return std::ranges::any_of(space.axes().axis_of[static_cast<size_t>(position)], [&](int a) {
    return std::ranges::find(choice.inner, a) != choice.inner.end();
  });
}

int main_output(const GroupSpace& space) {
  const auto rank = [&](int p) { return space.axes().axis_of[static_cast<size_t>(p)].size(); };
  int main = space.size() - 1;
  for (int p = 0; p < space.size(); ++p) {
    if (space.is_output(p) && rank(p) >= rank(main)) main = p;
  }
  return main;
}

std::vector<int> SweepChooser::physical_order(std::vector<int> list) const {
  // By the strides of the biggest output, outermost first; axes that it lacks come last.
  const int main = main_output(space_);
  std::sort(list.begin(), list.end(), [&](int a, int c) {
    const int64_t sa = output_stride_along(space_.program(), axes_, space_.group(), main, a);
    const int64_t sc = output_stride_along(space_.program(), axes_, space_.group(), main, c);
    return sa != sc ? sa > sc : a < c;
  });
  return list;
}

void SweepChooser::choose_axes() {
  std::vector<int> all;
  for (size_t a = 0; a < axes_.axes.size(); ++a) {
    if (axes_.axes[a].extent != 1) all.push_back(static_cast<int>(a));
  }
  choose_vector_axis(all);
  for (const int a : all) {
    const bool reduced = axes_.axes[static_cast<size_t>(a)].reduced;
    (reduced || (axes_.reductions.empty() && a == c_.vec_axis) ? c_.inner : c_.grid).push_back(a);
  }
  c_.grid = physical_order(c_.grid);
  c_.row_vector = c_.vec_axis >= 0 && is_inner(c_.vec_axis);
  if (c_.row_vector) {
    c_.inner.erase(std::find(c_.inner.begin(), c_.inner.end(), c_.vec_axis));
    c_.inner.push_back(c_.vec_axis);
  }
  if (c_.vec_axis < 0) return;
  const int64_t extent = axes_.axes[static_cast<size_t>(c_.vec_axis)].extent;
  c_.lanes = target_.lanes(4);
  while (c_.lanes > 4 && c_.lanes / 2 >= extent) c_.lanes /= 2;
  c_.vectors = std::clamp<int64_t>((extent + c_.lanes - 1) / c_.lanes, 1, most_vectors());
  if (axes_.reductions.empty()) {
    c_.row_axis = choose_row_axis();
    if (c_.row_axis >= 0) {
      c_.rows = c_.lanes, c_.vectors = 1;
    } else if (gathers_for_all_rows()) {
      c_.row_axis = c_.grid.back();
      c_.rows = kGatheringRows, c_.vectors = 1;
    } else if (const int sharing = axis_of_shared_reads(); sharing >= 0) {
      c_.row_axis = sharing;
      c_.rows = axes_.axes[static_cast<size_t>(sharing)].extent;
      c_.vectors = std::min<int64_t>(c_.vectors, 2);
    }
  } else {
    choose_rows();
  }
  // A core has its boxes for itself.
  if (!axes_.reductions.empty() || extent <= 2 * kStitchChunk || space_.frame()) return;
  int64_t items = 1;
  for (const int a : c_.grid) items *= axes_.axes[static_cast<size_t>(a)].extent;
  c_.chunked = items < kItemsPerThread * target_.threads;
}

/// How often what a member reads and stores is asked for, over the member with most elements.
struct SweepChooser::Shares {
  double read, stored;
};
std::vector<SweepChooser::Shares> SweepChooser::shares() const {
  std::vector<Shares> out;
  const double most = most_elements();
  for (int p = 0; p < space_.size(); ++p) {
    const std::vector<int>& own = axes_.axis_of[static_cast<size_t>(p)];
    double elements = 1, stored = 1;
    for (size_t d = 0; d < own.size(); ++d) {
      elements *= static_cast<double>(axes_.axes[static_cast<size_t>(own[d])].extent);
      if (static_cast<int>(d) + 1 == space_.expr(p).output_rank()) stored = elements;
    }
    out.push_back({elements / most, stored / most});
  }
  return out;
}

/// Of the member that goes over most.
double SweepChooser::most_elements() const {
  double most = 1;
  for (int p = 0; p < space_.size(); ++p) {
    double elements = 1;
    for (const int a : axes_.axis_of[static_cast<size_t>(p)])
      elements *= static_cast<double>(axes_.axes[static_cast<size_t>(a)].extent);
    most = std::max(most, elements);
  }
  return most;
}

/// Whether a tensor is read over and over: weights and positions of an interpolation, say. What it
/// gives to a vector, it gives to all lanes of one as well.
bool SweepChooser::is_table(const Scalar& read, double elements) const {
  constexpr double kTimes = 16;
  const Tensor& t = space_.program().tensors[static_cast<size_t>(read.symbol)];
  return kTimes * static_cast<double>(element_count(t.type.shape).value_or(0)) <= elements;
}

/// The vector axis is the one along which most bytes are contiguous; ties go to the longer one.
void SweepChooser::choose_vector_axis(const std::vector<int>& all) {
  const std::vector<Shares> shares = this->shares();
  const double elements = most_elements();
  double best = -1;
  for (const int a : all) {
    double score = 0;
    for (int p = 0; p < space_.size(); ++p) {
      const auto weigh = [&](int64_t stride, double share, DType type) {
        const double bytes = share * static_cast<double>(byte_size(type));
        if (stride == 1) score += 4 * bytes;
        if (stride > 1) score -= bytes;
        if (stride < 0) score -= 2 * bytes;  // gathered, an element at a time
      };
      visit(space_.expr(p).body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead || axes_.producer(s.symbol) >= 0) return;
        const int64_t stride = stride_along(space_.program(), axes_, p, s, a);
        if (stride > 0 && is_table(s, elements)) return;
        weigh(stride, shares[static_cast<size_t>(p)].read, s.type);
      });
      if (space_.is_output(p)) {
        // Twice where nothing is reduced: what is read across can be turned in registers then, a
        // store cannot.
        for (int times = axes_.reductions.empty() ? 2 : 1; times > 0; --times) {
          weigh(output_stride_along(space_.program(), axes_, space_.group(), p, a),
                shares[static_cast<size_t>(p)].stored,
                space_.program().tensors[static_cast<size_t>(space_.expr(p).output)].type.dtype);
        }
      }
    }
    const auto extent = static_cast<double>(axes_.axes[static_cast<size_t>(a)].extent);
    const double width = target_.lanes(4);
    score += std::min(extent, 4 * width) / (8 * width);
    if (extent < width / 2) score -= 4 * (1 - extent / width);
    if (score > best || c_.vec_axis < 0) {
      best = score;
      c_.vec_axis = a;
    }
  }
}

/// The axis along which something that is read across the vectors is contiguous: with as many rows
/// of it in registers as a vector has lanes, its loads become whole vectors that are transposed.
int SweepChooser::choose_row_axis() const {
  if (!axes_.reductions.empty() || !c_.row_vector || c_.lanes < 4) return -1;
  int best = -1;
  int64_t most = 0;
  for (const int a : c_.grid) {
    if (axes_.axes[static_cast<size_t>(a)].extent < c_.lanes) continue;
    int64_t bytes = 0;
    for (int p = 0; p < space_.size(); ++p) {
      visit(space_.expr(p).body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead || axes_.producer(s.symbol) >= 0) return;
        if (stride_along(space_.program(), axes_, p, s, a) == 1 &&
            stride_along(space_.program(), axes_, p, s, c_.vec_axis) > 1)
          bytes += byte_size(s.type);
      });
    }
    if (bytes > most) {
      most = bytes;
      best = a;
    }
  }
  return best;
}

/// Whether lanes read anywhere what is the same for all rows: several rows share it.
bool SweepChooser::gathers_for_all_rows() const {
  if (!c_.row_vector || c_.grid.empty()) return false;
  const int rows = c_.grid.back();
  if (axes_.axes[static_cast<size_t>(rows)].extent < kGatheringRows) return false;
  bool found = false;
  for (int p = 0; p < space_.size(); ++p) {
    visit(space_.expr(p).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || axes_.producer(s.symbol) >= 0) return;
      found |= stride_along(space_.program(), axes_, p, s, c_.vec_axis) < 0 &&
               stride_along(space_.program(), axes_, p, s, rows) == 0 &&
               !is_one_element(space_, p, s, c_.vec_axis, c_.lanes);
    });
  }
  return found;
}

/// Of a tile. Sums of columns stay in registers, and few hide the latency of what is added; where
/// data say the positions of whole vectors, finding them is most of the work, which more share.
int64_t SweepChooser::most_vectors() const {
  if (c_.row_vector) return 4;
  bool found = false;
  for (int p = 0; p < space_.size(); ++p) {
    visit(space_.expr(p).body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || s.operands.empty()) return;
      found |= stride_along(space_.program(), axes_, p, s, c_.vec_axis) == 1;
    });
  }
  return found ? target_.vector_registers / 2 : 2;
}

/// A short axis whose steps read the same elements, as the taps of a transformed window do: written
/// out, each is loaded once. Of several the innermost.
int SweepChooser::axis_of_shared_reads() const {
  if (!c_.row_vector) return -1;
  for (const int a : std::views::reverse(c_.grid)) {
    const GroupAxes::Axis& axis = axes_.axes[static_cast<size_t>(a)];
    if (axis.extent <= kMostSharing && !axis.open && shares_reads(a)) return a;
  }
  return -1;
}

/// Whether of all that the steps of an axis read half or less is distinct.
bool SweepChooser::shares_reads(int axis) const {
  const int64_t steps = axes_.axes[static_cast<size_t>(axis)].extent;
  size_t reads = 0;
  std::vector<ScalarRef> distinct;
  const auto add = [&](const ScalarRef& read) {
    ++reads;
    if (std::ranges::none_of(distinct, [&](const ScalarRef& d) { return equal(d, read); }))
      distinct.push_back(read);
  };
  for (int p = 0; p < space_.size(); ++p) {
    const TensorExpr& e = space_.expr(p);
    const std::vector<int>& own = axes_.axis_of[static_cast<size_t>(p)];
    const auto at_step = [&](const Scalar& read, int64_t step) {
      std::vector<IndexExpr> at;
      for (const IndexExpr& index : read.indices) {
        const IndexExpr there = substitute(index, [&](int v) {
          return own[static_cast<size_t>(v)] == axis ? IndexExpr(step) : IndexExpr::var(v);
        });
        at.push_back(simplify(there, [&](int v) { return e.range(v); }));
      }
      return scalar_read(read.symbol, read.type, std::move(at));
    };
    visit(e.body, [&](const Scalar& s) {
      if (s.kind != Scalar::Kind::kRead || axes_.producer(s.symbol) >= 0 || !s.operands.empty())
        return;
      for (int64_t step = 0; step < steps; ++step) add(at_step(s, step));
    });
  }
  return reads > static_cast<size_t>(steps) && 2 * distinct.size() <= reads;
}

/// What a row along `axis` reads, now and ahead, and stores; nothing where rows cannot be taken
/// together.
std::optional<int64_t> SweepChooser::bytes_of_row(int axis) const {
  int64_t row_bytes = 0;
  std::set<TensorId> read;
  for (int p = 0; p < space_.size(); ++p) {
    const Combiner c = space_.expr(p).combiner;
    if (space_.reduces(p) && (c == Combiner::kArgMax || c == Combiner::kArgMin))
      return std::nullopt;
    if (space_.reduces(p) && !space_.output_has_axis(p, axis)) return std::nullopt;
    visit(space_.expr(p).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0 &&
          stride_along(space_.program(), axes_, p, s, axis) != 0 && read.insert(s.symbol).second)
        row_bytes += 2 * byte_size(s.type);
    });
    if (space_.is_output(p) && is_row_value(p)) {
      row_bytes += byte_size(
          space_.program().tensors[static_cast<size_t>(space_.expr(p).output)].type.dtype);
    }
  }
  for (const int a : c_.inner) row_bytes *= axes_.axes[static_cast<size_t>(a)].extent;
  return row_bytes;
}

/// Several short rows together: the chains of operations from one sweep of a row to the next run
/// side by side, and what does not change from row to row is loaded once. The rows of a
/// tile and the inputs of the next one, which are asked for ahead of time, must stay in two thirds
/// of the first-level cache, and enough tiles remain for the threads. Long rows from memory are
/// taken one by one.
void SweepChooser::choose_rows() {
  if (!c_.row_vector || c_.grid.empty()) return;
  const int axis = c_.grid.back();
  const std::optional<int64_t> bytes = bytes_of_row(axis);
  if (!bytes) return;
  const int64_t row_bytes = *bytes;
  int64_t tiles = 1;
  for (const int a : c_.grid) tiles *= axes_.axes[static_cast<size_t>(a)].extent;
  // What comes from memory is bound by it, and its prefetcher follows one row better than several;
  // rows of a few vectors wait for their chains all the same.
  const bool from_memory = row_bytes > target_.l3_bytes / std::max<int64_t>(1, tiles);
  if (from_memory && axes_.axes[static_cast<size_t>(c_.vec_axis)].extent >= 4 * c_.lanes) return;
  int64_t rows = 1;
  while (rows < kMostRows && 2 * rows * row_bytes <= target_.l1_bytes / 3 * 2 &&
         2 * rows <= axes_.axes[static_cast<size_t>(axis)].extent &&
         tiles / (2 * rows) >= kItemsPerThread * target_.threads) {
    rows *= 2;
  }
  if (rows == 1) return;
  c_.row_axis = axis;
  c_.rows = rows;
  c_.vectors = std::min(c_.vectors, std::max<int64_t>(1, target_.vector_registers / 4 / rows));
}

void SweepChooser::decide_kept() {
  c_.kept.assign(static_cast<size_t>(space_.size()), false);
  for (int p = space_.size() - 1; p >= 0; --p) {
    if (!is_row_value(p)) continue;
    bool later = false;
    for (int q = p + 1; q < space_.size(); ++q) {
      visit(space_.expr(q).body, [&](const Scalar& s) {
        later |= s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) == p &&
                 axes_.level[static_cast<size_t>(q)] > axes_.level[static_cast<size_t>(p)];
      });
    }
    if (!later) continue;
    int64_t bytes =
        byte_size(space_.program().tensors[static_cast<size_t>(space_.expr(p).output)].type.dtype);
    for (const int a : c_.inner) bytes *= axes_.axes[static_cast<size_t>(a)].extent;
    bytes *= c_.row_vector ? c_.rows : c_.lanes * c_.vectors;
    // What is cheap is cheaper to compute again than to store and load.
    bool costly = is_costly(space_.expr(p).body);
    std::set<int> seen;
    std::vector<int> work{p};
    int64_t operations = 0;
    while (!work.empty()) {
      const int q = work.back();
      work.pop_back();
      if (!seen.insert(q).second) continue;
      costly |= is_costly(space_.expr(q).body);
      operations += operation_count(space_.expr(q).body);
      visit(space_.expr(q).body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead) return;
        const int producer = axes_.producer(s.symbol);
        if (producer >= 0 && is_row_value(producer)) work.push_back(producer);
      });
    }
    c_.kept[static_cast<size_t>(p)] = bytes <= row_budget(target_) && (costly || operations > 4);
  }
}

std::optional<SweepChoice> SweepChooser::with_tile(int64_t rows, int64_t vectors) {
  if (c_.vec_axis < 0) return std::nullopt;
  SweepChoice& c = c_;
  // Rows that are turned in registers are as many as lanes.
  const bool turned = axes_.reductions.empty() && c.row_axis >= 0;
  if (turned && rows != c.rows) return std::nullopt;
  const auto extent = [&](int a) { return axes_.axes[static_cast<size_t>(a)].extent; };
  if (vectors > 1 && (vectors - 1) * c.lanes >= extent(c.vec_axis)) return std::nullopt;
  if (!turned) {
    const bool together = !axes_.reductions.empty() && c.row_vector && !c.grid.empty() &&
                          bytes_of_row(c.grid.back()).has_value();
    if (rows > 1 && (!together || rows > extent(c.grid.back()))) return std::nullopt;
    c.row_axis = rows > 1 ? c.grid.back() : -1;
  }
  c.rows = rows;
  c.vectors = vectors;
  decide_kept();
  return c;
}

SweepChoice choose_sweep(const GroupSpace& space, const Target& target) {
  return SweepChooser(space, target).run();
}

std::vector<SweepChoice> other_sweeps(const GroupSpace& space, const Target& target) {
  constexpr int64_t kMostVectors = 8;
  SweepChooser chooser(space, target);
  const SweepChoice best = chooser.run();
  std::vector<SweepChoice> out;
  const auto add = [&](const SweepChoice& other) {
    if (other != best && std::ranges::find(out, other) == out.end()) out.push_back(other);
  };
  SweepChoice none_kept = best;
  none_kept.kept.assign(none_kept.kept.size(), false);
  std::vector<int64_t> rows = {best.rows, 1, 2, 4, 2 * kMostRows};
  for (const int64_t r : rows) {
    for (int64_t v = 1; v <= kMostVectors; v *= 2) {
      if (r > 1 && r * v > target.vector_registers / 2) continue;
      if (const auto other = chooser.with_tile(r, v)) add(*other);
    }
  }
  add(none_kept);
  return out;
}

}  // namespace weft
