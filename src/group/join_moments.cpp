#include "group/join_moments.h"

#include <algorithm>

namespace weft {

namespace {

/// Members that outputs need, second moments read from their sums' operands.
std::set<int> needed_members(const TensorProgram& program, const Group& group,
                             const JoinedGroup& joined) {
  std::set<int> needed;
  std::vector<int> work;
  const auto expr = [&](int p) -> const TensorExpr& {
    return program.exprs[static_cast<size_t>(group.exprs[static_cast<size_t>(p)])];
  };
  for (int p = 0; p < static_cast<int>(group.exprs.size()); ++p) {
    const bool out = std::find(group.outputs.begin(), group.outputs.end(), expr(p).output) !=
                     group.outputs.end();
    if (out) work.push_back(p);
  }
  while (!work.empty()) {
    const int p = work.back();
    work.pop_back();
    if (!needed.insert(p).second) continue;
    if (const CentralMoment* pair = joined.with_second(p)) {
      work.push_back(pair->sum);
      continue;
    }
    visit(expr(p).body, [&](const Scalar& s) {
      const int producer = s.kind == Scalar::Kind::kRead ? joined.axes.producer(s.symbol) : -1;
      if (producer >= 0) work.push_back(producer);
    });
  }
  return needed;
}

}  // namespace

const CentralMoment* JoinedGroup::with_sum(int position) const {
  const auto at = std::find_if(moments.begin(), moments.end(),
                               [&](const CentralMoment& m) { return m.sum == position; });
  return at != moments.end() ? &*at : nullptr;
}

const CentralMoment* JoinedGroup::with_second(int position) const {
  const auto at = std::find_if(moments.begin(), moments.end(),
                               [&](const CentralMoment& m) { return m.second == position; });
  return at != moments.end() ? &*at : nullptr;
}

JoinedGroup join_moments(const TensorProgram& program, const Group& group, const GroupAxes& axes) {
  JoinedGroup out{axes, {}, {}};
  for (const CentralMoment& m : central_moments(program, group, axes)) {
    // A second moment whose values have a mean of their own is made like any sum.
    const bool chained = out.with_second(m.sum) != nullptr || out.with_sum(m.second) != nullptr;
    if (out.with_sum(m.sum) == nullptr && !chained) out.moments.push_back(m);
  }
  if (out.moments.empty()) return out;
  join_sweeps(program, group, out.moments, &out.axes);
  const std::set<int> needed = needed_members(program, group, out);
  for (int p = 0; p < static_cast<int>(group.exprs.size()); ++p) {
    if (needed.count(p) == 0) out.unused.insert(p);
  }
  return out;
}

}  // namespace weft
