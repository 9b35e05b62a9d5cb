#include "tiling/tiling_expression.h"

#include <algorithm>
#include <numeric>

namespace weft {

namespace {

/// Contractions that have the loop.
int owners(const ContractionChain& chain, int loop) {
  int count = 0;
  for (int c = 0; c < chain.contractions(); ++c) count += chain.is_related(c, loop) ? 1 : 0;
  return count;
}

size_t place_of(const std::vector<int>& order, int loop) {
  return static_cast<size_t>(std::ranges::find(order, loop) - order.begin());
}

}  // namespace

std::string print(const TilingExpression& expression) {
  std::string out;
  for (const int loop : expression.nested) out += loop_name(loop);
  for (const int loop : expression.sequential)
    out += (loop == expression.sequential.front() ? "(" : ",") + std::string(1, loop_name(loop));
  return out + (expression.sequential.empty() ? "" : ")");
}

std::vector<TilingExpression> tiling_expressions(const ContractionChain& chain, bool deep_only) {
  std::vector<TilingExpression> out;
  std::vector<int> order(static_cast<size_t>(chain.loops()));
  std::iota(order.begin(), order.end(), 0);
  do {
    out.push_back({order, {}});
  } while (std::ranges::next_permutation(order).found);
  if (deep_only) return out;
  std::vector<int> shared, own;
  for (int loop = 0; loop < chain.loops(); ++loop)
    (owners(chain, loop) > 1 ? shared : own).push_back(loop);
  if (own.size() < 2) return out;
  do {
    out.push_back({shared, own});
  } while (std::ranges::next_permutation(shared).found);
  return out;
}

BlockLoops block_loops(const TilingExpression& expression, const ContractionChain& chain) {
  const int last = chain.contractions() - 1;
  const int made = chain.made_by(last), reduced = chain.reduced_by(last);
  const std::vector<int>& nested = expression.nested;
  BlockLoops out{{0}, {}};
  const bool is_nested = place_of(nested, made) < nested.size();
  if (is_nested && place_of(nested, made) < place_of(nested, reduced)) out.bound.push_back(made);
  for (int c = 0; c < chain.contractions(); ++c) {
    // Loops that an earlier contraction alone reduces are over.
    const auto is_over = [&](int loop) { return loop > 0 && loop <= c; };
    std::vector<int> around;
    size_t innermost = 0;
    for (size_t i = 0; i < nested.size(); ++i) {
      const bool is_bound = std::ranges::find(out.bound, nested[i]) != out.bound.end();
      if (!is_bound && chain.is_related(c, nested[i])) innermost = i + 1;
    }
    for (size_t i = 0; i < innermost; ++i) {
      const int loop = nested[i];
      if (std::ranges::find(out.bound, loop) == out.bound.end() && !is_over(loop))
        around.push_back(loop);
    }
    for (const int loop : expression.sequential) {
      if (chain.is_related(c, loop)) around.push_back(loop);
    }
    out.around.push_back(std::move(around));
  }
  return out;
}

}  // namespace weft
