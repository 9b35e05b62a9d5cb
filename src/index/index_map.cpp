#include "index/index_map.h"

#include <algorithm>

#include "support/check.h"

namespace weft {
namespace {

RangeOf ranges_of(const IndexMap& map) {
  return [&map](int var) { return map.range(var); };
}

bool implies(const Interval& value, const Interval& allowed) {
  return allowed.lo <= value.lo && value.hi <= allowed.hi;
}

void add_constraint(IndexMap& map, const IndexExpr& expr, const Interval& allowed) {
  if (implies(range_of(expr, ranges_of(map)), allowed)) return;
  IndexMap::Constraint constraint{expr, allowed};
  if (std::find(map.constraints.begin(), map.constraints.end(), constraint) ==
      map.constraints.end()) {
    map.constraints.push_back(std::move(constraint));
  }
}

/// Axes [from_begin, from_end) and [to_begin, to_end) of equal products and no smaller cut.
struct ReshapeGroup {
  size_t from_begin = 0, from_end = 0, to_begin = 0, to_end = 0;
};

std::vector<ReshapeGroup> reshape_groups(const std::vector<int64_t>& from,
                                         const std::vector<int64_t>& to) {
  std::vector<ReshapeGroup> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    ReshapeGroup group{i, i, j, j};
    int64_t have = 1, want = 1;
    do {
      // The side that lags takes its next axis; extents of 1 go with whatever stands there.
      const bool take_from = j == to.size() || (i < from.size() && have <= want);
      int64_t& product = take_from ? have : want;
      const int64_t extent = take_from ? from[i++] : to[j++];
      WEFT_CHECK(!__builtin_mul_overflow(product, extent, &product),
                 "reshape of too many elements");
    } while (have != want && (i < from.size() || j < to.size()));
    WEFT_CHECK(have == want, "reshape changes the number of elements");
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

}  // namespace

Interval IndexMap::range(int var) const {
  const auto v = static_cast<size_t>(var);
  if (var < 0) return kUnbounded;
  if (v < domain.size()) return domain[v];
  if (v - domain.size() < symbol_ranges.size()) return symbol_ranges[v - domain.size()];
  return kUnbounded;
}

IndexMap identity_map(const std::vector<int64_t>& shape) {
  IndexMap map;
  for (size_t i = 0; i < shape.size(); ++i) {
    map.domain.push_back({0, shape[i] - 1});
    map.results.push_back(IndexExpr::var(static_cast<int>(i)));
  }
  return map;
}

IndexMap reshape_map(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  IndexMap map;
  for (const int64_t extent : to) map.domain.push_back({0, extent - 1});
  map.results.assign(from.size(), IndexExpr(0));
  const auto empty = [](int64_t extent) { return extent == 0; };
  if (std::any_of(to.begin(), to.end(), empty)) return map;
  const RangeOf ranges = ranges_of(map);
  for (const ReshapeGroup& group : reshape_groups(from, to)) {
    IndexExpr linear(0);
    int64_t stride = 1;
    for (size_t j = group.to_end; j-- > group.to_begin;) {
      if (to[j] > 1) linear = linear + IndexExpr::var(static_cast<int>(j)) * IndexExpr(stride);
      stride *= to[j];
    }
    stride = 1;
    size_t top = group.from_begin;
    while (top + 1 < group.from_end && from[top] == 1) ++top;
    for (size_t i = group.from_end; i-- > group.from_begin;) {
      if (from[i] == 1) continue;
      const IndexExpr shifted = floor_div(linear, stride);
      map.results[i] = simplify(i == top ? shifted : mod(shifted, from[i]), ranges);
      stride *= from[i];
    }
  }
  return map;
}

IndexMap compose(const IndexMap& first, const IndexMap& second) {
  WEFT_CHECK(first.results.size() == second.domain.size(), "composed maps differ in rank");
  IndexMap map;
  map.domain = first.domain;
  map.symbol_ranges = first.symbol_ranges;
  map.symbol_ranges.insert(map.symbol_ranges.end(), second.symbol_ranges.begin(),
                           second.symbol_ranges.end());
  map.constraints = first.constraints;
  const RangeOf ranges = ranges_of(map);
  const int second_dims = second.dim_count();
  const int symbol_base =
      first.dim_count() + static_cast<int>(first.symbol_ranges.size()) - second_dims;
  const std::function<IndexExpr(int)> into_first = [&](int id) {
    return id < second_dims ? first.results[static_cast<size_t>(id)]
                            : IndexExpr::var(id + symbol_base);
  };
  for (size_t i = 0; i < second.domain.size(); ++i) {
    add_constraint(map, first.results[i], second.domain[i]);
  }
  for (const auto& constraint : second.constraints) {
    add_constraint(map, simplify(substitute(constraint.expr, into_first), ranges),
                   constraint.range);
  }
  for (const IndexExpr& result : second.results) {
    map.results.push_back(simplify(substitute(result, into_first), ranges));
  }
  return map;
}

std::vector<Interval> image(const IndexMap& map) {
  std::vector<Interval> box;
  const RangeOf ranges = ranges_of(map);
  for (const IndexExpr& result : map.results) box.push_back(range_of(result, ranges));
  return box;
}

IndexMap simplify(const IndexMap& map) {
  IndexMap out;
  out.domain = map.domain;
  out.symbol_ranges = map.symbol_ranges;
  const RangeOf ranges = ranges_of(map);
  for (const IndexExpr& result : map.results) out.results.push_back(simplify(result, ranges));
  for (const auto& constraint : map.constraints) {
    add_constraint(out, simplify(constraint.expr, ranges), constraint.range);
  }
  return out;
}

}  // namespace weft
