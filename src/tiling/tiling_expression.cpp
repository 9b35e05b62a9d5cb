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

Result<TilingExpression> parse_tiling(std::string_view text, const ContractionChain& chain) {
  const auto refuse = [&](const std::string& why) {
    return invalid_input("tiling expression '" + std::string(text) + "': " + why);
  };
  TilingExpression out;
  const size_t open = text.find('(');
  std::string_view inside;
  if (open != std::string_view::npos) {
    if (text.back() != ')') return refuse("loops behind each other stand in ( )");
    inside = text.substr(open + 1, text.size() - open - 2);
  }
  const auto loop_of = [&](char name) {
    int loop = 0;
    while (loop < chain.loops() && loop_name(loop) != name) ++loop;
    return loop;
  };
  std::vector<int> times(static_cast<size_t>(chain.loops()) + 1, 0);
  for (const char name : text.substr(0, open)) {
    out.nested.push_back(loop_of(name));
    ++times[static_cast<size_t>(out.nested.back())];
  }
  for (size_t at = 0; at < inside.size(); at += 2) {
    if (at + 1 < inside.size() && inside[at + 1] != ',')
      return refuse("loops behind each other are apart by commas");
    out.sequential.push_back(loop_of(inside[at]));
    ++times[static_cast<size_t>(out.sequential.back())];
  }
  const bool each_once =
      std::ranges::all_of(times.begin(), times.end() - 1, [](int n) { return n == 1; });
  if (times.back() > 0 || !each_once)
    return refuse("it names each of " + print(tiling_expressions(chain, true).front()) + " once");
  return out;
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
