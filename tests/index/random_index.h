#pragma once

#include <random>
#include <vector>

#include "index/index_map.h"

namespace weft {

/// Random index expressions and maps for property tests; the same seed gives the same ones.
class RandomIndex {
 public:
  explicit RandomIndex(uint64_t seed) : engine_(seed) {}

  int64_t pick(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(engine_() % static_cast<uint64_t>(hi - lo + 1));
  }

  IndexExpr expr(int vars, int depth) {
    if (depth == 0) return pick(0, 3) == 0 ? IndexExpr(pick(-7, 7)) : IndexExpr::var(var(vars));
    const IndexExpr a = expr(vars, depth - 1);
    switch (pick(0, 7)) {
      case 0:
      case 1:
        return a + expr(vars, depth - 1);
      case 2:
        return a - expr(vars, depth - 1);
      case 3:
        return a * IndexExpr(pick(-4, 6));
      case 4:
        return floor_div(a, pick(1, 6));
      case 5:
        return mod(a, pick(1, 6));
      case 6:
        return min(a, expr(vars, depth - 1));
      default:
        return max(a, expr(vars, depth - 1));
    }
  }

  std::vector<Interval> box(int rank, int64_t largest = 5) {
    std::vector<Interval> ranges;
    for (int i = 0; i < rank; ++i) {
      const int64_t lo = pick(-2, 2);
      ranges.push_back({lo, lo + pick(0, largest - 1)});
    }
    return ranges;
  }

  std::vector<int64_t> shape(int64_t elements) {
    std::vector<int64_t> out;
    while (elements > 1) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= elements; ++d) {
        if (elements % d == 0) divisors.push_back(d);
      }
      out.push_back(
          divisors[static_cast<size_t>(pick(0, static_cast<int64_t>(divisors.size()) - 1))]);
      elements /= out.back();
    }
    return out;
  }

  std::mt19937_64& engine() { return engine_; }

 private:
  int var(int vars) { return static_cast<int>(pick(0, vars - 1)); }
  std::mt19937_64 engine_;
};

/// Calls visit(point) for every point of the box, last coordinate fastest.
template <typename Visit>
void for_each_point(const std::vector<Interval>& box, const Visit& visit) {
  std::vector<int64_t> point;
  for (const Interval& r : box) {
    if (r.empty()) return;
    point.push_back(r.lo);
  }
  while (true) {
    visit(static_cast<const std::vector<int64_t>&>(point));
    size_t i = box.size();
    while (i > 0 && point[i - 1] == box[i - 1].hi) {
      point[i - 1] = box[i - 1].lo;
      --i;
    }
    if (i == 0) return;
    ++point[i - 1];
  }
}

inline int64_t evaluate_at(const IndexExpr& e, const std::vector<int64_t>& point) {
  return evaluate(e, [&](int id) { return point[static_cast<size_t>(id)]; });
}

inline std::vector<int64_t> apply_map(const IndexMap& map, const std::vector<int64_t>& point) {
  std::vector<int64_t> out;
  for (const IndexExpr& r : map.results) out.push_back(evaluate_at(r, point));
  return out;
}

/// Whether the map is defined at the point.
inline bool defined_at(const IndexMap& map, const std::vector<int64_t>& point) {
  for (const auto& c : map.constraints) {
    if (!c.range.contains(evaluate_at(c.expr, point))) return false;
  }
  for (size_t i = 0; i < point.size(); ++i) {
    if (!map.range(static_cast<int>(i)).contains(point[i])) return false;
  }
  return true;
}

}  // namespace weft
