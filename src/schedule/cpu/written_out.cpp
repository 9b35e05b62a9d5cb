#include "schedule/cpu/written_out.h"

#include <algorithm>
#include <vector>

#include "group/strides.h"

namespace weft {

namespace {

/// Elements of a row that is written out, each a load and a store: their code stays in the
/// first-level cache.
constexpr int64_t kMostElements = 1024;

/// The output with most axes; of several the last.
int main_output(const GroupSpace& space) {
  const auto rank = [&](int p) { return space.axes().axis_of[static_cast<size_t>(p)].size(); };
  int out = space.size() - 1;
  for (int p = space.size() - 1; p >= 0; --p) {
    if (space.is_output(p) && rank(p) > rank(out)) out = p;
  }
  return out;
}

/// Whether a member reads from outside at a place that is no sum of multiples along the axis.
bool reads_irregularly(const GroupSpace& space, int axis) {
  bool found = false;
  for (int p = 0; p < space.size(); ++p) {
    visit(space.expr(p).body, [&](const Scalar& s) {
      if (s.kind == Scalar::Kind::kRead && space.axes().producer(s.symbol) < 0)
        found |= stride_along(space.program(), space.axes(), p, s, axis) < 0;
    });
  }
  return found;
}

/// Whether data say where a member reads.
bool reads_where_data_say(const GroupSpace& space) {
  bool found = false;
  for (int p = 0; p < space.size(); ++p) {
    visit(space.expr(p).body,
          [&](const Scalar& s) { found |= s.kind == Scalar::Kind::kRead && !s.operands.empty(); });
  }
  return found;
}

}  // namespace

bool is_written_out(const GroupSpace& space, const SweepChoice& choice) {
  return space.axes().reductions.empty() && choice.vec_axis < 0 && !choice.inner.empty();
}

std::optional<SweepChoice> choose_written_out(const GroupSpace& space, const SweepChoice& swept) {
  const GroupAxes& axes = space.axes();
  if (!axes.reductions.empty() || swept.vec_axis < 0 || space.frame() ||
      reads_where_data_say(space))
    return std::nullopt;
  const int main = main_output(space);
  const auto stride = [&](int a) {
    return output_stride_along(space.program(), axes, space.group(), main, a);
  };
  std::vector<int> all = swept.grid;
  if (std::ranges::find(all, swept.vec_axis) == all.end()) all.push_back(swept.vec_axis);
  if (std::ranges::any_of(all, [&](int a) { return stride(a) <= 0; })) return std::nullopt;
  std::ranges::sort(
      all, [&](int a, int b) { return stride(a) != stride(b) ? stride(a) > stride(b) : a < b; });
  // From the outermost axis whose steps the lanes would gather or store apart.
  const auto first = std::ranges::find_if(all, [&](int a) {
    return reads_irregularly(space, a) || (a == swept.vec_axis && stride(a) > 1);
  });
  int64_t elements = 1;
  for (auto a = first; a != all.end(); ++a) {
    const GroupAxes::Axis& axis = axes.axes[static_cast<size_t>(*a)];
    if (axis.open || axis.extent > kMostElements / elements) return std::nullopt;
    elements *= axis.extent;
  }
  if (first == all.end()) return std::nullopt;
  SweepChoice out;
  out.grid.assign(all.begin(), first);
  out.inner.assign(first, all.end());
  out.row_vector = false;
  out.kept.assign(static_cast<size_t>(space.size()), false);
  return out;
}

}  // namespace weft
