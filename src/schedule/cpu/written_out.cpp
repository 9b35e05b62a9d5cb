#include "schedule/cpu/written_out.h"

#include <algorithm>
#include <span>
#include <vector>

#include "group/strides.h"
#include "schedule/cpu/choose_sweep.h"

namespace weft {

namespace {

/// Elements of a row that is written out, each a load and a store: their code stays in the
/// first-level cache.
constexpr int64_t kMostElements = 1024;

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

bool can_be_written_out(const GroupSpace& space, std::span<const int> list) {
  int64_t elements = 1;
  for (const int a : list) {
    const GroupAxes::Axis& axis = space.axes().axes[static_cast<size_t>(a)];
    if (axis.open || axis.extent > kMostElements / elements) return false;
    elements *= std::max<int64_t>(axis.extent, 1);
  }
  return !list.empty();
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
  if (!can_be_written_out(space, std::span(first, all.end()))) return std::nullopt;
  SweepChoice out;
  out.grid.assign(all.begin(), first);
  out.inner.assign(first, all.end());
  out.row_vector = false;
  out.kept.assign(static_cast<size_t>(space.size()), false);
  return out;
}

}  // namespace weft
