#include <algorithm>
#include <set>

#include "group/strides.h"
#include "schedule/cpu/stitch_builder.h"

namespace weft {

namespace {

/// Rows longer than this many bytes are computed again rather than kept: they would not stay in a
/// core's second-level cache.
int64_t row_budget(const Target& target) { return target.l2_bytes / 2; }

/// Work items that give every thread several.
constexpr int64_t kItemsPerThread = 4;
/// Rows that are in a tile together at most.
constexpr int64_t kMostRows = 4;

/// Whether the output of a member runs along an axis (its reduction axes do not count).
bool output_has_axis(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                     int position, int axis) {
  const TensorExpr& e =
      program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(position)])];
  const auto& list = axes.axis_of[static_cast<size_t>(position)];
  return std::find(list.begin(), list.begin() + e.output_rank(), axis) !=
         list.begin() + e.output_rank();
}

/// Operations that take many cycles a vector.
bool is_costly(const ScalarRef& s) {
  bool costly = false;
  visit(s, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kApply) return;
    costly |= (n.op >= ScalarOp::kExp && n.op <= ScalarOp::kErf) || n.op == ScalarOp::kDiv ||
              n.op == ScalarOp::kPow;
  });
  return costly;
}

}  // namespace

std::vector<int> Stitch::physical_order(std::vector<int> list) const {
  // By the strides of the biggest output, outermost first; axes that it lacks come last.
  int main = count_ - 1;
  for (int p = 0; p < count_; ++p) {
    if (is_output(p) && axes_.axis_of[static_cast<size_t>(p)].size() >=
                            axes_.axis_of[static_cast<size_t>(main)].size())
      main = p;
  }
  std::sort(list.begin(), list.end(), [&](int a, int c) {
    const int64_t sa = output_stride_along(program_, axes_, group_, main, a);
    const int64_t sc = output_stride_along(program_, axes_, group_, main, c);
    return sa != sc ? sa > sc : a < c;
  });
  return list;
}

void Stitch::choose_axes() {
  std::vector<int> all;
  for (size_t a = 0; a < axes_.axes.size(); ++a) {
    if (axes_.axes[a].extent != 1) all.push_back(static_cast<int>(a));
  }
  // The vector axis is the one along which most bytes are contiguous; ties go to the longer one.
  double best = -1;
  for (const int a : all) {
    double score = 0;
    for (int p = 0; p < count_; ++p) {
      const auto weigh = [&](int64_t stride, DType type) {
        if (stride == 1) score += 4.0 * static_cast<double>(byte_size(type));
        if (stride > 1 || stride < 0) score -= 1.0 * static_cast<double>(byte_size(type));
      };
      visit(b_.expr(p).body, [&](const Scalar& s) {
        if (s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0) {
          weigh(stride_along(program_, axes_, p, s, a), s.type);
        }
      });
      if (is_output(p)) {
        // Twice where nothing is reduced: what is read across can be turned in registers then, a
        // store cannot.
        for (int times = axes_.reductions.empty() ? 2 : 1; times > 0; --times) {
          weigh(output_stride_along(program_, axes_, group_, p, a),
                program_.tensors[static_cast<size_t>(b_.expr(p).output)].type.dtype);
        }
      }
    }
    const auto extent = static_cast<double>(axes_.axes[static_cast<size_t>(a)].extent);
    const double width = target_.lanes(4);
    score += std::min(extent, 4 * width) / (8 * width);
    if (extent < width / 2) score -= 4 * (1 - extent / width);
    if (score > best || vec_axis_ < 0) {
      best = score;
      vec_axis_ = a;
    }
  }
  for (const int a : all) {
    const bool reduced = axes_.axes[static_cast<size_t>(a)].reduced;
    (reduced || (axes_.reductions.empty() && a == vec_axis_) ? inner_ : grid_).push_back(a);
  }
  grid_ = physical_order(grid_);
  row_vector_ = vec_axis_ >= 0 && is_inner(vec_axis_);
  if (row_vector_) {
    inner_.erase(std::find(inner_.begin(), inner_.end(), vec_axis_));
    inner_.push_back(vec_axis_);
  }
  if (vec_axis_ < 0) return;
  const int64_t extent = axes_.axes[static_cast<size_t>(vec_axis_)].extent;
  lanes_ = target_.lanes(4);
  while (lanes_ > 4 && lanes_ / 2 >= extent) lanes_ /= 2;
  regs_ = std::clamp<int64_t>((extent + lanes_ - 1) / lanes_, 1, row_vector_ ? 4 : 2);
  if (axes_.reductions.empty()) {
    cross_axis_ = choose_cross_axis();
    if (cross_axis_ >= 0) rows_ = lanes_, regs_ = 1;
  } else {
    choose_rows();
  }
  if (!axes_.reductions.empty() || extent <= 2 * kStitchChunk) return;
  int64_t items = 1;
  for (const int a : grid_) items *= axes_.axes[static_cast<size_t>(a)].extent;
  chunked_ = items < kItemsPerThread * target_.threads;
}

/// The axis along which something that is read across the vectors is contiguous: with as many rows
/// of it in registers as a vector has lanes, its loads become whole vectors that are transposed.
int Stitch::choose_cross_axis() const {
  if (!axes_.reductions.empty() || !row_vector_ || lanes_ < 4) return -1;
  int best = -1;
  int64_t most = 0;
  for (const int a : grid_) {
    if (axes_.axes[static_cast<size_t>(a)].extent < lanes_) continue;
    int64_t bytes = 0;
    for (int p = 0; p < count_; ++p) {
      visit(b_.expr(p).body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead || axes_.producer(s.symbol) >= 0) return;
        if (stride_along(program_, axes_, p, s, a) == 1 &&
            stride_along(program_, axes_, p, s, vec_axis_) > 1)
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

/// Several short rows together: the chains of operations from one sweep of a row to the next run
/// side by side, and what does not change from row to row is loaded once. The rows of a
/// tile and the inputs of the next one, which are asked for ahead of time, must stay in two thirds
/// of the first-level cache, and enough tiles remain for the threads. Long rows from memory are
/// taken one by one.
void Stitch::choose_rows() {
  if (!row_vector_ || grid_.empty()) return;
  const int axis = grid_.back();
  int64_t row_bytes = 0;
  std::set<TensorId> read;
  for (int p = 0; p < count_; ++p) {
    const Combiner c = b_.expr(p).combiner;
    if (reduces(p) && (c == Combiner::kArgMax || c == Combiner::kArgMin)) return;
    if (reduces(p) && !output_has_axis(p, axis)) return;
    visit(b_.expr(p).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) < 0 &&
          stride_along(program_, axes_, p, s, axis) != 0 && read.insert(s.symbol).second)
        row_bytes += 2 * byte_size(s.type);
    });
    if (is_output(p) && is_row_value(p)) {
      row_bytes += byte_size(program_.tensors[static_cast<size_t>(b_.expr(p).output)].type.dtype);
    }
  }
  for (const int a : inner_) row_bytes *= axes_.axes[static_cast<size_t>(a)].extent;
  int64_t tiles = 1;
  for (const int a : grid_) tiles *= axes_.axes[static_cast<size_t>(a)].extent;
  // What comes from memory is bound by it, and its prefetcher follows one row better than several;
  // rows of a few vectors wait for their chains all the same.
  const bool from_memory = row_bytes > target_.l3_bytes / std::max<int64_t>(1, tiles);
  if (from_memory && axes_.axes[static_cast<size_t>(vec_axis_)].extent >= 4 * lanes_) return;
  int64_t rows = 1;
  while (rows < kMostRows && 2 * rows * row_bytes <= target_.l1_bytes / 3 * 2 &&
         2 * rows <= axes_.axes[static_cast<size_t>(axis)].extent &&
         tiles / (2 * rows) >= kItemsPerThread * target_.threads) {
    rows *= 2;
  }
  if (rows == 1) return;
  cross_axis_ = axis;
  rows_ = rows;
  regs_ = std::min(regs_, std::max<int64_t>(1, target_.vector_registers / 4 / rows));
}

void Stitch::decide_kept() {
  kept_.assign(static_cast<size_t>(count_), false);
  for (int p = count_ - 1; p >= 0; --p) {
    if (!is_row_value(p)) continue;
    bool later = false;
    for (int q = p + 1; q < count_; ++q) {
      visit(b_.expr(q).body, [&](const Scalar& s) {
        later |= s.kind == Scalar::Kind::kRead && axes_.producer(s.symbol) == p &&
                 axes_.level[static_cast<size_t>(q)] > axes_.level[static_cast<size_t>(p)];
      });
    }
    if (!later) continue;
    int64_t bytes = byte_size(program_.tensors[static_cast<size_t>(b_.expr(p).output)].type.dtype);
    for (const int a : inner_) bytes *= axes_.axes[static_cast<size_t>(a)].extent;
    bytes *= row_vector_ ? rows_ : lanes_ * regs_;
    // What is cheap is cheaper to compute again than to store and load.
    bool costly = is_costly(b_.expr(p).body);
    std::set<int> seen;
    std::vector<int> work{p};
    int64_t operations = 0;
    while (!work.empty()) {
      const int q = work.back();
      work.pop_back();
      if (!seen.insert(q).second) continue;
      costly |= is_costly(b_.expr(q).body);
      operations += operation_count(b_.expr(q).body);
      visit(b_.expr(q).body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead) return;
        const int producer = axes_.producer(s.symbol);
        if (producer >= 0 && is_row_value(producer)) work.push_back(producer);
      });
    }
    kept_[static_cast<size_t>(p)] = bytes <= row_budget(target_) && (costly || operations > 4);
  }
}

ScheduleChoices Stitch::choices() const {
  ScheduleChoices out;
  out.grid = grid_;
  out.inner = inner_;
  out.vec_axis = vec_axis_;
  out.row_axis = cross_axis_;
  out.rows = rows_;
  out.vectors = regs_;
  out.lanes = lanes_;
  out.row_vector = row_vector_;
  out.chunked = chunked_;
  out.kept = kept_;
  return out;
}

/// False where the choices are not for these axes or expressions.
bool Stitch::follow(const ScheduleChoices& choices) {
  if (choices.kept.size() != static_cast<size_t>(count_) || !fits_axes(choices, axes_))
    return false;
  grid_ = choices.grid;
  inner_ = choices.inner;
  vec_axis_ = choices.vec_axis;
  cross_axis_ = choices.row_axis;
  rows_ = choices.rows;
  regs_ = choices.vectors;
  lanes_ = choices.lanes;
  row_vector_ = choices.row_vector;
  chunked_ = choices.chunked;
  kept_ = choices.kept;
  return true;
}

namespace {

/// A reduction that is made again may take this much more than the largest member of the group, or
/// than what a launch costs.
constexpr double kMostRepeated = 2, kFewPoints = 1024;

/// Points that a member walks, its reduction axes included.
double points_of(const GroupAxes& axes, size_t position) {
  double points = 1;
  for (const int a : axes.axis_of[position])
    points *= static_cast<double>(axes.axes[static_cast<size_t>(a)].extent);
  return points;
}

/// The first reduction that would be made again, for each place along axes that it lacks, so often
/// that this is most of the kernel's work; -1 where there is none.
int repeated_reduction(const GroupAxes& axes) {
  double most = kFewPoints;
  for (size_t p = 0; p < axes.axis_of.size(); ++p) most = std::max(most, points_of(axes, p));
  for (const int p : axes.reductions) {
    double points = points_of(axes, static_cast<size_t>(p));
    for (size_t a = 0; a < axes.axes.size(); ++a) {
      if (!axes.axes[a].reduced && !has_axis(axes, p, static_cast<int>(a)))
        points *= static_cast<double>(axes.axes[a].extent);
    }
    if (points > kMostRepeated * most) return p;
  }
  return -1;
}

}  // namespace

Decision stitch_applies(const TensorProgram& program, const Group& group, const GroupAxes& axes,
                        const Target& target) {
  (void)target;
  const auto name = [&](int p) {
    return program
        .tensors[static_cast<size_t>(
            program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(p)])].output)]
        .name;
  };
  std::set<int> reduced;
  for (size_t a = 0; a < axes.axes.size(); ++a) {
    if (axes.axes[a].reduced && axes.axes[a].extent != 1) reduced.insert(static_cast<int>(a));
  }
  for (const int p : axes.reductions) {
    const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(p)])];
    std::set<int> own;
    for (int a = e.output_rank(); a < e.axis_count(); ++a) {
      const int axis = axes.axis_of[static_cast<size_t>(p)][static_cast<size_t>(a)];
      if (axes.axes[static_cast<size_t>(axis)].extent != 1) own.insert(axis);
    }
    if (own != reduced)
      return Decision::forbid(name(p) + " reduces other axes than the rest of the group");
    const bool arg = e.combiner == Combiner::kArgMax || e.combiner == Combiner::kArgMin;
    if (arg && e.reduce_extents.size() != 1)
      return Decision::forbid(name(p) + " takes a position over several axes");
  }
  if (const int p = repeated_reduction(axes); p >= 0) {
    return Decision::forbid(name(p) +
                            " lacks axes that the group runs over and would be reduced "
                            "again at each of their places");
  }
  for (size_t p = 0; p < group.exprs.size(); ++p) {
    const TensorExpr& e = program.exprs[static_cast<size_t>(group.exprs[p])];
    if (std::find(group.outputs.begin(), group.outputs.end(), e.output) == group.outputs.end())
      continue;
    for (size_t a = 0; a < axes.axes.size(); ++a) {
      if (axes.axes[a].extent == 1 || reduced.count(static_cast<int>(a)) != 0) continue;
      if (!output_has_axis(program, group, axes, static_cast<int>(p), static_cast<int>(a))) {
        return Decision::forbid(name(static_cast<int>(p)) +
                                " must reach memory but lacks an axis of extent " +
                                std::to_string(axes.axes[a].extent) + " that the group runs over");
      }
    }
    // Inside the sweeps an output has all the reduced axes or none.
    size_t have = 0;
    for (const int a : reduced)
      have += output_has_axis(program, group, axes, static_cast<int>(p), a) ? 1 : 0;
    if (have != 0 && have != reduced.size()) {
      return Decision::forbid(name(static_cast<int>(p)) +
                              " must reach memory but runs along only some of the reduced axes");
    }
  }
  return Decision::allow();
}

Result<ScheduledKernel> build_stitch(const TensorProgram& program, const Group& group,
                                     const GroupAxes& axes, const Target& target,
                                     const std::string& name, const ScheduleChoices* as_chosen) {
  return Stitch(program, group, axes, target, name).build(as_chosen);
}

}  // namespace weft
