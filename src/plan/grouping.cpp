#include "plan/grouping.h"

#include <algorithm>
#include <set>

namespace weft {

Grouping::Grouping(const TensorProgram& program, const Target&)
    : program_(program), uses_(tensor_uses(program)) {
  const size_t n = program.steps.size();
  consumers_.resize(n);
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const int producer = uses_.producer[t];
    if (producer < 0) continue;
    auto& list = consumers_[static_cast<size_t>(producer)];
    list.insert(list.end(), uses_.consumers[t].begin(), uses_.consumers[t].end());
  }
  for (auto& list : consumers_) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  for (size_t s = 0; s < n; ++s) {
    group_of_.push_back(static_cast<int>(s));
    members_.push_back({static_cast<int>(s)});
  }
}

Group Grouping::make_group(std::vector<int> steps) const {
  Group group;
  std::set<int> inside(steps.begin(), steps.end());
  for (const int s : steps) {
    const ExprId e = program_.steps[static_cast<size_t>(s)].index;
    group.exprs.push_back(e);
    const TensorId t = program_.exprs[static_cast<size_t>(e)].output;
    bool outside = program_.tensors[static_cast<size_t>(t)].is_output;
    for (const int c : uses_.consumers[static_cast<size_t>(t)]) outside |= inside.count(c) == 0;
    if (outside) group.outputs.push_back(t);
  }
  return group;
}

Group Grouping::merged(int a, int b) const {
  std::vector<int> steps;
  std::merge(members_[static_cast<size_t>(a)].begin(), members_[static_cast<size_t>(a)].end(),
             members_[static_cast<size_t>(b)].begin(), members_[static_cast<size_t>(b)].end(),
             std::back_inserter(steps));
  return make_group(std::move(steps));
}

std::vector<int> Grouping::successors(int group) const {
  std::vector<int> out;
  for (const int s : members_[static_cast<size_t>(group)]) {
    for (const int c : consumers_[static_cast<size_t>(s)]) {
      const int g = group_of(c);
      if (g != group) out.push_back(g);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Decision Grouping::stays_acyclic(int a, int b) const {
  // A path between the two through a third group would make the merged kernel wait for itself.
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const int last = members_[static_cast<size_t>(to)].back();
    std::vector<int> work;
    std::set<int> seen{from};
    for (const int g : successors(from)) {
      if (g != to && seen.insert(g).second) work.push_back(g);
    }
    while (!work.empty()) {
      const int g = work.back();
      work.pop_back();
      if (members_[static_cast<size_t>(g)].front() > last) continue;
      for (const int next : successors(g)) {
        if (next == to) {
          const ExprId through =
              program_.steps[static_cast<size_t>(members_[static_cast<size_t>(g)].front())].index;
          const bool opaque =
              program_.steps[static_cast<size_t>(members_[static_cast<size_t>(g)].front())].opaque;
          return Decision::forbid(
              "another kernel lies between them" +
              (opaque ? std::string(" (an opaque step)")
                      : " (" +
                            program_
                                .tensors[static_cast<size_t>(
                                    program_.exprs[static_cast<size_t>(through)].output)]
                                .name +
                            ")"));
        }
        if (seen.insert(next).second) work.push_back(next);
      }
    }
  }
  return Decision::allow();
}

void Grouping::merge(int a, int b) {
  std::vector<int> steps;
  std::merge(members_[static_cast<size_t>(a)].begin(), members_[static_cast<size_t>(a)].end(),
             members_[static_cast<size_t>(b)].begin(), members_[static_cast<size_t>(b)].end(),
             std::back_inserter(steps));
  for (const int s : steps) group_of_[static_cast<size_t>(s)] = a;
  members_[static_cast<size_t>(a)] = std::move(steps);
  members_[static_cast<size_t>(b)].clear();
}

std::vector<Group> Grouping::groups() const {
  std::vector<Group> out;
  for (const auto& steps : members_) {
    if (steps.empty() || program_.steps[static_cast<size_t>(steps[0])].opaque) continue;
    out.push_back(make_group(steps));
  }
  return out;
}

namespace {

/// The groups that read a tensor, by their first step.
std::vector<int> readers_of(const Grouping& grouping, TensorId tensor) {
  std::set<int> groups;
  for (const int s : grouping.uses().consumers[static_cast<size_t>(tensor)]) {
    if (!grouping.program().steps[static_cast<size_t>(s)].opaque) {
      groups.insert(grouping.group_of(s));
    }
  }
  return {groups.begin(), groups.end()};
}

void merge_beside(const FusionRule& rule, Grouping& grouping) {
  const size_t tensors = grouping.program().tensors.size();
  for (size_t t = 0; t < tensors; ++t) {
    std::vector<int> groups = readers_of(grouping, static_cast<TensorId>(t));
    for (size_t i = 0; i < groups.size(); ++i) {
      for (size_t k = i + 1; k < groups.size(); ++k) {
        const int a = groups[i], b = groups[k];
        const Group merged = grouping.merged(a, b);
        if (!rule.legal_beside(merged) || !grouping.stays_acyclic(a, b) ||
            !rule.profitable(grouping.group(a), grouping.group(b), merged)) {
          continue;
        }
        grouping.merge(a, b);
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(k--));
      }
    }
  }
}

}  // namespace

Partition merge_greedily(const TensorProgram& program, const Target& target,
                         const FusionRule& rule) {
  Grouping grouping(program, target);
  Partition out;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const TensorProgram::Step& step = program.steps[s];
    if (step.opaque) continue;
    // Tensors read, latest producer first: the nearest values are the ones worth keeping on chip.
    std::vector<std::pair<int, TensorId>> edges;
    visit(program.exprs[static_cast<size_t>(step.index)].body, [&](const Scalar& n) {
      if (n.kind != Scalar::Kind::kRead) return;
      const int producer = grouping.uses().producer[static_cast<size_t>(n.symbol)];
      if (producer >= 0) edges.emplace_back(-producer, n.symbol);
    });
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    for (const auto& [negative, tensor] : edges) {
      const int producer = -negative;
      EdgeDecision edge;
      edge.producer = producer;
      edge.consumer = static_cast<int32_t>(s);
      edge.tensor = tensor;
      const int a = grouping.group_of(producer), b = grouping.group_of(static_cast<int>(s));
      const auto record = [&](EdgeDecision::Verdict verdict, std::string reason) {
        edge.verdict = verdict;
        edge.reason = std::move(reason);
        out.edges.push_back(edge);
      };
      if (a == b) {
        record(EdgeDecision::Verdict::kFused, "already in one kernel");
        continue;
      }
      if (program.steps[static_cast<size_t>(producer)].opaque) {
        record(EdgeDecision::Verdict::kIllegal, "its producer is an opaque step");
        continue;
      }
      const Group merged = grouping.merged(a, b);
      Decision decision = rule.legal(merged);
      if (decision) decision = grouping.stays_acyclic(a, b);
      if (!decision) {
        record(EdgeDecision::Verdict::kIllegal, decision.reason());
        continue;
      }
      Decision profit = rule.profitable(grouping.group(a), grouping.group(b), merged);
      if (!profit) {
        record(EdgeDecision::Verdict::kUnprofitable, profit.reason());
        continue;
      }
      record(EdgeDecision::Verdict::kFused, profit.reason());
      grouping.merge(a, b);
    }
  }
  if (rule.legal_beside) merge_beside(rule, grouping);
  out.groups = grouping.groups();
  return out;
}

}  // namespace weft
