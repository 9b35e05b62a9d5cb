#include "plan/fusion_graph.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <ranges>
#include <unordered_map>
#include <unordered_set>

#include "support/check.h"

namespace weft {

namespace {

/// Edges that the first walk of a question may follow; each further one has several times as many.
constexpr int64_t kFirstBudget = 64;
constexpr int64_t kBudgetGrowth = 4;

std::vector<FusionGraph::Edge> reads_of(const TensorProgram& program, const TensorUses& uses,
                                        int step) {
  const TensorProgram::Step& reader = program.steps[static_cast<size_t>(step)];
  if (reader.opaque) return {};
  std::set<std::pair<int, TensorId>> found;
  visit(program.exprs[static_cast<size_t>(reader.index)].body, [&](const Scalar& n) {
    if (n.kind != Scalar::Kind::kRead) return;
    const int producer = uses.producer[static_cast<size_t>(n.symbol)];
    if (producer >= 0) found.emplace(-producer, n.symbol);
  });
  std::vector<FusionGraph::Edge> edges;
  for (const auto& [negative, tensor] : found) edges.push_back({-negative, step, tensor});
  return edges;
}

}  // namespace

FusionGraph::FusionGraph(const TensorProgram& program)
    : program_(program),
      uses_(tensor_uses(program)),
      producers_(program.steps.size()),
      consumers_(program.steps.size()),
      order_(static_cast<int>(program.steps.size())) {
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const int producer = uses_.producer[t];
    if (producer < 0) continue;
    for (const int consumer : uses_.consumers[t]) {
      consumers_[static_cast<size_t>(producer)].insert(consumer);
      producers_[static_cast<size_t>(consumer)].insert(producer);
    }
  }
  for (int s = 0; s < static_cast<int>(program.steps.size()); ++s) {
    edges_into_.push_back(reads_of(program, uses_, s));
    group_of_.push_back(s);
    holders_.push_back({s});
    steps_.push_back({s});
    rank_.push_back(s);
  }
}

void FusionGraph::sort_by_rank(std::vector<int>& groups) const {
  std::ranges::sort(groups, {}, [&](int g) { return rank_[static_cast<size_t>(g)]; });
}

std::vector<int> FusionGraph::readers(TensorId tensor) const {
  std::set<int> found;
  for (const int s : uses_.consumers[static_cast<size_t>(tensor)]) {
    for (const int g : holders(s)) {
      if (!is_opaque(g)) found.insert(g);
    }
  }
  std::vector<int> groups(found.begin(), found.end());
  sort_by_rank(groups);
  return groups;
}

bool FusionGraph::is_opaque(int group) const {
  return program_.steps[static_cast<size_t>(steps(group).front())].opaque;
}

std::vector<int> FusionGraph::steps_of_both(int a, int b) const {
  std::vector<int> both;
  std::ranges::set_union(steps(a), steps(b), std::back_inserter(both));
  return both;
}

bool FusionGraph::is_output(int step) const {
  const ExprId e = program_.steps[static_cast<size_t>(step)].index;
  const TensorId made = program_.exprs[static_cast<size_t>(e)].output;
  return program_.tensors[static_cast<size_t>(made)].is_output;
}

/// Whether the union of groups, one of which holds the step, stores what it makes.
bool FusionGraph::leaves(int step, std::span<const int> groups) const {
  const auto is_one = [&](int g) { return std::ranges::find(groups, g) != groups.end(); };
  if (!is_one(group_of(step))) return false;
  const ExprId e = program_.steps[static_cast<size_t>(step)].index;
  const TensorId made = program_.exprs[static_cast<size_t>(e)].output;
  return is_output(step) ||
         std::ranges::any_of(uses_.consumers[static_cast<size_t>(made)], [&](int consumer) {
           return std::ranges::any_of(holders(consumer),
                                      [&](int g) { return !is_one(g) && !holds(g, step); });
         });
}

/// Without what only others need: they have copies of it.
Group FusionGraph::make_group(const std::vector<int>& steps, std::span<const int> groups) const {
  Group group;
  std::unordered_set<int> read;
  for (const int s : std::views::reverse(steps)) {
    const ExprId e = program_.steps[static_cast<size_t>(s)].index;
    const bool out = leaves(s, groups);
    if (has_copies_) {
      if (!out && !read.contains(s)) continue;
      for (const Edge& edge : edges_into(s)) read.insert(edge.producer);
    }
    group.exprs.push_back(e);
    if (out) group.outputs.push_back(program_.exprs[static_cast<size_t>(e)].output);
  }
  std::ranges::reverse(group.exprs);
  std::ranges::reverse(group.outputs);
  return group;
}

Group FusionGraph::group(int id) const { return make_group(steps(id), std::array{id}); }

Group FusionGraph::merged(int a, int b) const {
  return make_group(steps_of_both(a, b), std::array{a, b});
}

Group FusionGraph::merged(std::span<const int> groups) const {
  std::vector<int> all;
  for (const int g : groups) all.insert(all.end(), steps(g).begin(), steps(g).end());
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return make_group(all, groups);
}

Group FusionGraph::with_copy(int group, int producer) const {
  return make_group(steps_of_both(group, producer), std::array{group});
}

std::vector<int> FusionGraph::ids() const {
  std::vector<int> ids;
  for (int g = 0; g < size(); ++g) {
    if (!steps(g).empty() && !is_opaque(g)) ids.push_back(g);
  }
  sort_by_rank(ids);
  return ids;
}

std::vector<Group> FusionGraph::groups() const {
  std::vector<Group> out;
  for (const int g : ids()) {
    Group made = group(g);
    if (!made.exprs.empty()) out.push_back(std::move(made));
  }
  return out;
}

/// The first and the last of the groups in the order.
std::pair<int, int> FusionGraph::ends(std::span<const int> groups) const {
  const auto [first, last] =
      std::ranges::minmax_element(groups, [&](int a, int b) { return order_.before(a, b); });
  return {*first, *last};
}

/// Depth first through the groups between the ends of `from`, of several the last in rank first;
/// with `stops` only to the first that leads back. Nothing if it would follow more than `budget`
/// edges.
std::optional<FusionGraph::Walk> FusionGraph::walk(std::span<const int> from, const Next& next,
                                                   int64_t budget, bool stops) const {
  const auto [first, last] = ends(from);
  const std::unordered_set<int> begun(from.begin(), from.end());
  std::unordered_set<int> seen;
  std::vector<int> work(from.begin(), from.end()), ahead;
  Walk out;
  while (!work.empty()) {
    const int g = work.back();
    work.pop_back();
    const std::set<int>& neighbours = next(g);
    budget -= static_cast<int64_t>(neighbours.size());
    if (budget < 0) return std::nullopt;
    ahead.clear();
    for (const int n : neighbours) {
      if (begun.contains(n)) {
        if (begun.contains(g)) continue;
        out.last = g;
        if (stops) return out;
      } else if (order_.before(first, n) && order_.before(n, last) && seen.insert(n).second) {
        ahead.push_back(n);
      }
    }
    sort_by_rank(ahead);
    work.insert(work.end(), ahead.begin(), ahead.end());
    out.met.insert(out.met.end(), ahead.begin(), ahead.end());
  }
  return out;
}

/// The walk towards consumers that leaves groups other than those of `within` and `from` alone.
FusionGraph::Walk FusionGraph::walk_within(std::span<const int> from,
                                           const std::vector<int>& within) const {
  std::unordered_set<int> inside(within.begin(), within.end());
  inside.insert(from.begin(), from.end());
  std::unordered_map<int, std::set<int>> consumers;
  for (const int g : inside) {
    for (const int p : producers_[static_cast<size_t>(g)]) {
      if (inside.contains(p)) consumers[p].insert(g);
    }
  }
  const Next next = [&](int g) -> const std::set<int>& { return consumers[g]; };
  return *walk(from, next, std::numeric_limits<int64_t>::max(), /*stops=*/true);
}

Decision FusionGraph::lies_between(int group) const {
  if (group < 0) return Decision::allow();
  if (is_opaque(group)) {
    return Decision::forbid("another kernel lies between them (an opaque step)");
  }
  const ExprId first = program_.steps[static_cast<size_t>(steps(group).front())].index;
  const TensorId made = program_.exprs[static_cast<size_t>(first)].output;
  return Decision::forbid("another kernel lies between them (" +
                          program_.tensors[static_cast<size_t>(made)].name + ")");
}

Decision FusionGraph::is_convex(std::span<const int> groups) const {
  const Next consumers = [&](int g) -> const std::set<int>& {
    return consumers_[static_cast<size_t>(g)];
  };
  const Next producers = [&](int g) -> const std::set<int>& {
    return producers_[static_cast<size_t>(g)];
  };
  for (int64_t budget = kFirstBudget;; budget *= kBudgetGrowth) {
    if (const auto ahead = walk(groups, consumers, budget, /*stops=*/true))
      return lies_between(ahead->last);
    const auto back = walk(groups, producers, budget, /*stops=*/false);
    if (!back) continue;
    if (back->last < 0) return Decision::allow();
    return lies_between(walk_within(groups, back->met).last);
  }
}

/// Gives one of two groups, the one returned, a place in the order where the union may stand: that
/// of the last, with what depends on the first moved behind it, or that of the first, with what the
/// last depends on moved before it, whichever is found first.
int FusionGraph::place_union(int a, int b) {
  const std::array both = {a, b};
  const auto [first, last] = ends(both);
  const Next consumers = [&](int g) -> const std::set<int>& {
    return consumers_[static_cast<size_t>(g)];
  };
  const Next producers = [&](int g) -> const std::set<int>& {
    return producers_[static_cast<size_t>(g)];
  };
  const auto in_order = [&](std::vector<int> groups) {
    std::ranges::sort(groups, [&](int x, int y) { return order_.before(x, y); });
    return groups;
  };
  for (int64_t budget = kFirstBudget;; budget *= kBudgetGrowth) {
    if (const auto ahead = walk(both, consumers, budget, /*stops=*/true)) {
      WEFT_CHECK(ahead->last < 0, "the union of two groups waits for itself");
      int anchor = last;
      for (const int g : in_order(ahead->met)) {
        order_.move_behind(anchor, g);
        anchor = g;
      }
      return last;
    }
    if (const auto back = walk(both, producers, budget, /*stops=*/true)) {
      WEFT_CHECK(back->last < 0, "the union of two groups waits for itself");
      for (const int g : in_order(back->met)) order_.move_before(first, g);
      return first;
    }
  }
}

/// What stood beside the group that ends stands beside the other.
void FusionGraph::take_neighbours(int kept, int gone) {
  const auto take = [&](Neighbours& near, Neighbours& far) {
    for (const int n : near[static_cast<size_t>(gone)]) {
      far[static_cast<size_t>(n)].erase(gone);
      if (n == kept) continue;
      far[static_cast<size_t>(n)].insert(kept);
      near[static_cast<size_t>(kept)].insert(n);
    }
    near[static_cast<size_t>(gone)].clear();
  };
  take(producers_, consumers_);
  take(consumers_, producers_);
}

int FusionGraph::merge(int a, int b) {
  WEFT_CHECK(!is_opaque(a) && !is_opaque(b), "an opaque step shares no kernel");
  const int place = place_union(a, b);
  // The one with more to rename keeps its id.
  const auto weight = [&](int g) {
    return steps(g).size() + producers_[static_cast<size_t>(g)].size() +
           consumers_[static_cast<size_t>(g)].size();
  };
  const auto [kept, gone] = weight(a) < weight(b) ? std::pair(b, a) : std::pair(a, b);
  order_.move_behind(place, kept);
  order_.remove(gone);
  take_neighbours(kept, gone);
  for (const int s : steps(gone)) {
    std::vector<int>& own = holders_[static_cast<size_t>(s)];
    std::erase(own, gone);
    if (!holds(kept, s)) own.push_back(kept);
    if (group_of(s) == gone || own.size() == 1) group_of_[static_cast<size_t>(s)] = kept;
  }
  steps_[static_cast<size_t>(kept)] = steps_of_both(a, b);
  steps_[static_cast<size_t>(gone)].clear();
  rank_[static_cast<size_t>(kept)] = rank_[static_cast<size_t>(a)];
  return kept;
}

/// From the first in the order on: what leads from one to another of a convex set lies in it, so
/// that no pair has anything between them.
int FusionGraph::merge(std::span<const int> groups) {
  std::vector<int> ordered(groups.begin(), groups.end());
  std::ranges::sort(ordered, [&](int a, int b) { return order_.before(a, b); });
  int kept = ordered.front();
  for (size_t i = 1; i < ordered.size(); ++i) kept = merge(kept, ordered[i]);
  return kept;
}

void FusionGraph::copy_into(int group, int producer) {
  WEFT_CHECK(producer != group && !is_opaque(group) && !is_opaque(producer),
             "a group takes no copy of itself or of an opaque step");
  const auto of = [](Neighbours& near, int g) -> std::set<int>& {
    return near[static_cast<size_t>(g)];
  };
  for (const int s : steps(producer)) {
    if (!holds(group, s)) holders_[static_cast<size_t>(s)].push_back(group);
  }
  steps_[static_cast<size_t>(group)] = steps_of_both(group, producer);
  for (const int p : of(producers_, producer)) {
    of(producers_, group).insert(p);
    of(consumers_, p).insert(group);
  }
  of(producers_, group).erase(producer);
  of(consumers_, producer).erase(group);
  has_copies_ = true;
  const bool stored = std::ranges::any_of(
      steps(producer), [&](int s) { return group_of(s) == producer && is_output(s); });
  if (!of(consumers_, producer).empty() || stored) return;
  for (const int p : of(producers_, producer)) of(consumers_, p).erase(producer);
  of(producers_, producer).clear();
  order_.remove(producer);
  for (const int s : steps(producer)) {
    std::vector<int>& holding = holders_[static_cast<size_t>(s)];
    std::erase(holding, producer);
    if (group_of(s) == producer)
      group_of_[static_cast<size_t>(s)] = holding.size() == 1 ? holding[0] : -1;
  }
  steps_[static_cast<size_t>(producer)].clear();
}

}  // namespace weft
