#include "plan/generators/pattern_reduction.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>

namespace weft {

namespace {

using Members = std::vector<int>;

Members united(const Members& a, const Members& b) {
  Members both;
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}

class PatternReduction {
 public:
  PatternReduction(const FusionGraph& graph, const PatternRule& rule, size_t top)
      : graph_(graph), rule_(rule), top_(top), parts_(static_cast<size_t>(graph.size())) {}

  /// Those that hold all of `root` (nothing for a virtual one), from the candidates of its readers;
  /// the last of these stands for the reader alone.
  std::vector<Pattern> reduce(const Members& root, std::span<const std::vector<Pattern>> readers) {
    if (readers.size() > 2) {
      const size_t half = readers.size() / 2;
      const std::vector<Pattern> left = reduce(root, readers.first(half));
      const std::vector<Pattern> right = reduce(root, readers.subspan(half));
      std::set<Members> tried;
      for (const auto* side : {&left, &right}) {
        for (const Pattern& p : *side) tried.insert(p.groups);
      }
      for (const Pattern& l : left) {
        for (const Pattern& r : right) tried.insert(united(l.groups, r.groups));
      }
      return best_of(tried);
    }
    std::set<Members> tried = {root};
    for (const std::vector<Pattern>& reader : readers) {
      const std::set<Members> without = tried;
      for (const Members& w : without) {
        for (const Pattern& p : reader) tried.insert(united(w, p.groups));
      }
    }
    return best_of(tried);
  }

 private:
  const Group& part(int group) {
    std::optional<Group>& known = parts_[static_cast<size_t>(group)];
    if (!known) known = graph_.group(group);
    return *known;
  }

  /// The gain is asked first: it is cheaper than what is legal, and few are left to ask.
  std::vector<Pattern> best_of(const std::set<Members>& tried) {
    struct Priced {
      Pattern pattern;
      Group merged;
    };
    std::vector<Priced> priced;
    for (const Members& groups : tried) {
      if (groups.size() < 2) continue;
      Priced p{{groups, 0, {}}, graph_.merged(groups)};
      if (p.merged.exprs.size() > rule_.most_expressions) continue;
      std::vector<Group> parts;
      for (const int g : groups) parts.push_back(part(g));
      p.pattern.gain_us = rule_.gain(parts, p.merged);
      if (p.pattern.gain_us > 0) priced.push_back(std::move(p));
    }
    std::ranges::sort(priced, [](const Priced& a, const Priced& b) {
      const Pattern &p = a.pattern, &q = b.pattern;
      return p.gain_us != q.gain_us ? p.gain_us > q.gain_us : p.groups < q.groups;
    });
    std::vector<Pattern> best;
    for (Priced& p : priced) {
      if (best.size() == top_) break;
      if (graph_.is_convex(p.pattern.groups) && rule_.legal(p.merged))
        best.push_back(std::move(p.pattern));
    }
    return best;
  }

  const FusionGraph& graph_;
  const PatternRule& rule_;
  size_t top_;
  std::vector<std::optional<Group>> parts_;
};

}  // namespace

std::vector<std::vector<Pattern>> reduce_patterns(const FusionGraph& graph, const PatternRule& rule,
                                                  size_t top) {
  const auto n = static_cast<size_t>(graph.size());
  std::vector<std::vector<int>> readers(n);
  for (int s = 0; s < graph.size(); ++s) {
    for (const FusionGraph::Edge& e : graph.edges_into(s)) {
      if (!graph.is_opaque(e.producer)) readers[static_cast<size_t>(e.producer)].push_back(s);
    }
  }
  std::vector<std::vector<Pattern>> found(n);
  PatternReduction reduction(graph, rule, top);
  for (int s = graph.size(); s-- > 0;) {
    std::vector<int>& own = readers[static_cast<size_t>(s)];
    own.erase(std::ranges::unique(own).begin(), own.end());
    if (own.empty()) continue;
    std::vector<std::vector<Pattern>> of_readers;
    for (const int r : own) {
      of_readers.push_back(found[static_cast<size_t>(r)]);
      of_readers.back().push_back({{r}, 0, {}});
    }
    found[static_cast<size_t>(s)] = reduction.reduce({s}, of_readers);
  }
  return found;
}

Pattern reduce_remote(const FusionGraph& graph, const PatternRule& rule, size_t top,
                      const std::vector<int>& groups) {
  std::vector<std::vector<Pattern>> alone;
  for (const int g : groups) alone.push_back({{{g}, 0, {}}});
  std::vector<Pattern> best = PatternReduction(graph, rule, top).reduce({}, alone);
  return best.empty() ? Pattern{} : std::move(best.front());
}

}  // namespace weft
