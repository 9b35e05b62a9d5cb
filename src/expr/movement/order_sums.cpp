#include "expr/movement/order_sums.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

#include "expr/movement/factor_steps.h"

namespace weft {
namespace {

/// Between elements a page apart no line is used twice, and no hardware fetches ahead.
constexpr int64_t kPageBytes = 4096;

/// Of each axis of a sum, bytes between neighbours in the tensors read.
struct Steps {
  std::vector<int64_t> least, most;
};

/// Nothing where some position is no sum of multiples.
std::optional<Steps> steps_of(const TensorProgram& program, const TensorExpr& e) {
  const size_t count = e.reduce_extents.size();
  Steps steps{std::vector<int64_t>(count, INT64_MAX), std::vector<int64_t>(count, 0)};
  bool known = true;
  visit(e.body, [&](const Scalar& s) {
    if (s.kind != Scalar::Kind::kRead || !known) return;
    const std::optional<AffineForm> form = memory_steps(program, e, s);
    known = form.has_value();
    if (!known) return;
    for (size_t r = 0; r < count; ++r) {
      const int64_t step = form->coefficient(e.output_rank() + static_cast<int>(r));
      const int64_t bytes = std::abs(step) * byte_size(s.type);
      steps.least[r] = std::min(steps.least[r], bytes);
      steps.most[r] = std::max(steps.most[r], bytes);
    }
  });
  return known ? std::optional(std::move(steps)) : std::nullopt;
}

bool order_sum(const TensorProgram& program, TensorExpr& e) {
  const size_t count = e.reduce_extents.size();
  if (!e.is_contraction || count < 2 || e.reduce_extents.back() == 1) return false;
  const std::optional<Steps> steps = steps_of(program, e);
  if (!steps || steps->least.back() < kPageBytes) return false;
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t r) { return std::pair(-steps->most[r], r); });
  if (std::ranges::is_sorted(order)) return false;
  std::vector<int> place(count);
  std::vector<int64_t> extents;
  for (size_t at = 0; at < count; ++at) {
    place[order[at]] = e.output_rank() + static_cast<int>(at);
    extents.push_back(e.reduce_extents[order[at]]);
  }
  const int first = e.output_rank(), last = e.axis_count();
  e.body = rewrite(e.body, [&](int v) {
    return IndexExpr::var(v >= first && v < last ? place[static_cast<size_t>(v - first)] : v);
  });
  e.reduce_extents = std::move(extents);
  return true;
}

}  // namespace

bool order_sums(TensorProgram& program) {
  bool changed = false;
  for (TensorExpr& e : program.exprs) changed |= order_sum(program, e);
  return changed;
}

}  // namespace weft
