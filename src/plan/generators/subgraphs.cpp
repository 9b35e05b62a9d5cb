#include "plan/generators/subgraphs.h"

#include <algorithm>
#include <deque>
#include <set>

namespace weft {

namespace {

class Subgraphs {
 public:
  Subgraphs(const TensorProgram& program, const FusionGraph& graph, const PatternRule& rule)
      : program_(program), graph_(graph), rule_(rule), taken_(static_cast<size_t>(graph.size())) {}

  std::vector<std::vector<Pattern>> run() {
    std::vector<std::vector<Pattern>> out(static_cast<size_t>(graph_.size()));
    for (const int first : graph_.ids()) {
      if (!may_join(first)) continue;
      const std::vector<int> groups = grown_from(first);
      for (const int g : groups) taken_[static_cast<size_t>(g)] = true;
      if (groups.size() < 2) continue;
      std::vector<Group> parts;
      for (const int g : groups) parts.push_back(graph_.group(g));
      const double gain_us = rule_.gain(parts, graph_.merged(groups));
      if (gain_us > 0) out[static_cast<size_t>(groups.front())].push_back({groups, gain_us, {}});
    }
    return out;
  }

 private:
  bool may_join(int group) const {
    if (graph_.is_opaque(group) || taken_[static_cast<size_t>(group)]) return false;
    return std::ranges::none_of(graph_.group(group).exprs, [&](ExprId e) {
      return program_.exprs[static_cast<size_t>(e)].is_contraction;
    });
  }

  std::vector<int> grown_from(int first) {
    std::vector<int> members = {first};
    std::deque<int> queue;
    std::set<int> met = {first};
    std::vector<int> refused;
    const auto meet = [&](int group) {
      for (const int n : neighbours(group)) {
        if (met.insert(n).second && may_join(n)) queue.push_back(n);
      }
    };
    meet(first);
    while (!queue.empty()) {
      const int group = queue.front();
      queue.pop_front();
      if (!joins(group, &members)) {
        refused.push_back(group);
        continue;
      }
      meet(group);
      queue.insert(queue.end(), refused.begin(), refused.end());
      refused.clear();
    }
    return members;
  }

  bool joins(int group, std::vector<int>* members) const {
    std::vector<int> both = *members;
    both.insert(std::ranges::upper_bound(both, group), group);
    const Group merged = graph_.merged(both);
    if (merged.exprs.size() > rule_.most_expressions) return false;
    if (!graph_.is_convex(both) || !rule_.legal(merged)) return false;
    *members = std::move(both);
    return true;
  }

  std::vector<int> neighbours(int group) const {
    std::vector<int> out(graph_.producers(group).begin(), graph_.producers(group).end());
    out.insert(out.end(), graph_.consumers(group).begin(), graph_.consumers(group).end());
    for (const ExprId e : graph_.group(group).exprs) {
      visit(program_.exprs[static_cast<size_t>(e)].body, [&](const Scalar& s) {
        if (s.kind != Scalar::Kind::kRead) return;
        const std::vector<int> beside = graph_.readers(s.symbol);
        out.insert(out.end(), beside.begin(), beside.end());
      });
    }
    return out;
  }

  const TensorProgram& program_;
  const FusionGraph& graph_;
  const PatternRule& rule_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<std::vector<Pattern>> find_subgraphs(const TensorProgram& program,
                                                 const FusionGraph& graph,
                                                 const PatternRule& rule) {
  return Subgraphs(program, graph, rule).run();
}

}  // namespace weft
