#include "plan/selectors/merge_greedily.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace weft {

namespace {

using Verdict = EdgeDecision::Verdict;

Decision stays_acyclic(const FusionGraph& graph, int a, int b) {
  return graph.is_convex(std::array{a, b});
}

/// Whether the groups of an edge become one, and why; merges them if so.
std::pair<Verdict, std::string> decide(const FusionRule& rule, const FusionGraph::Edge& edge,
                                       FusionGraph& graph) {
  const int a = graph.group_of(edge.producer), b = graph.group_of(edge.consumer);
  if (a == b) return {Verdict::kFused, "already in one kernel"};
  if (graph.is_opaque(a)) return {Verdict::kIllegal, "its producer is an opaque step"};
  const Group merged = graph.merged(a, b);
  Decision legal = rule.legal(merged);
  if (legal) legal = stays_acyclic(graph, a, b);
  if (!legal) return {Verdict::kIllegal, legal.reason()};
  Decision profitable = rule.profitable(graph.group(a), graph.group(b), merged);
  if (!profitable) return {Verdict::kUnprofitable, profitable.reason()};
  graph.merge(a, b);
  return {Verdict::kFused, profitable.reason()};
}

/// A reader of a tensor, with how it reduces.
struct Reader {
  int group = -1;
  Group own;
  ReducedSizes reduces;
};

/// Merges readers whose sizes agree.
void merge_beside(const FusionRule& rule, std::vector<Reader>& readers, FusionGraph& graph) {
  for (size_t i = 0; i < readers.size(); ++i) {
    for (size_t k = i + 1; k < readers.size(); ++k) {
      Reader &first = readers[i], &second = readers[k];
      ReducedSizes reduces = first.reduces;
      reduces.ascending |= second.reduces.ascending;
      reduces.descending |= second.reduces.descending;
      if (!reduces.both_ways()) continue;
      const Group merged = graph.merged(first.group, second.group);
      if (!rule.legal_beside(merged) || !stays_acyclic(graph, first.group, second.group) ||
          !rule.profitable(first.own, second.own, merged)) {
        continue;
      }
      first = {graph.merge(first.group, second.group), merged, reduces};
      readers.erase(readers.begin() + static_cast<std::ptrdiff_t>(k--));
    }
  }
}

void merge_beside(const FusionRule& rule, TensorId tensor, FusionGraph& graph) {
  std::map<std::pair<int64_t, int64_t>, std::vector<Reader>> by_sizes;
  for (const int g : graph.readers(tensor)) {
    Group own = graph.group(g);
    if (const auto reduces = rule.reduced_sizes(own))
      by_sizes[reduces->sizes].push_back({g, std::move(own), *reduces});
  }
  for (auto& [sizes, readers] : by_sizes) merge_beside(rule, readers, graph);
}

/// Edges of groups that merged for the sake of others.
void note_merged(const FusionGraph& graph, std::vector<EdgeDecision>& edges) {
  for (EdgeDecision& edge : edges) {
    if (edge.verdict == Verdict::kFused) continue;
    if (graph.group_of(edge.producer) != graph.group_of(edge.consumer)) continue;
    edge.verdict = Verdict::kFused;
    edge.reason = "already in one kernel";
  }
}

std::vector<const Pattern*> by_step(const std::vector<Pattern>& patterns, int steps) {
  std::vector<const Pattern*> of(static_cast<size_t>(steps), nullptr);
  for (const Pattern& p : patterns) {
    for (const int s : p.groups) of[static_cast<size_t>(s)] = &p;
  }
  return of;
}

/// The edges between groups that stayed apart, once more. Whether any merged.
bool compose(const FusionRule& rule, FusionGraph& graph, std::vector<EdgeDecision>& edges) {
  bool merged = false;
  for (EdgeDecision& edge : edges) {
    if (edge.verdict == Verdict::kFused) continue;
    const int a = graph.group_of(edge.producer), b = graph.group_of(edge.consumer);
    if (a == b) {
      edge.verdict = Verdict::kFused;
      edge.reason = "already in one kernel";
      continue;
    }
    if (graph.is_opaque(a) || graph.is_opaque(b) || !stays_acyclic(graph, a, b)) continue;
    const Decision composes = rule.composes(graph.group(a), graph.group(b), graph.merged(a, b));
    if (!composes) {
      static constexpr std::string_view kAsBlocks = "; as blocks of stages: ";
      edge.reason.resize(std::min(edge.reason.find(kAsBlocks), edge.reason.size()));
      edge.reason += kAsBlocks;
      edge.reason += composes.reason();
      continue;
    }
    graph.merge(a, b);
    merged = true;
    edge.verdict = Verdict::kFused;
    edge.reason = composes.reason();
  }
  return merged;
}

}  // namespace

Partition merge_greedily(const TensorProgram& program, const FusionRule& rule) {
  return merge_greedily(program, rule, FusionGraph(program), {});
}

Partition merge_greedily(const TensorProgram& program, const FusionRule& rule, FusionGraph graph,
                         const std::vector<Pattern>& patterns) {
  Partition out;
  const std::vector<const Pattern*> pattern_of = by_step(patterns, graph.size());
  for (int s = 0; s < static_cast<int>(program.steps.size()); ++s) {
    // The nearest values are the ones worth keeping on chip, so the latest producer comes first.
    for (const FusionGraph::Edge& edge : graph.edges_into(s)) {
      auto [verdict, reason] = decide(rule, edge, graph);
      const Pattern* of_both = pattern_of[static_cast<size_t>(s)];
      if (of_both != nullptr && of_both == pattern_of[static_cast<size_t>(edge.producer)])
        reason = of_both->because;
      out.edges.push_back({edge.producer, edge.consumer, edge.tensor, verdict, std::move(reason)});
    }
  }
  if (rule.legal_beside) {
    for (size_t t = 0; t < program.tensors.size(); ++t)
      merge_beside(rule, static_cast<TensorId>(t), graph);
  }
  if (rule.merges_more) {
    rule.merges_more(graph);
    note_merged(graph, out.edges);
  }
  // What does not pay for two may pay when one of them has grown.
  for (bool merged = rule.composes != nullptr; merged;) merged = compose(rule, graph, out.edges);
  out.groups = graph.groups();
  return out;
}

}  // namespace weft
