#include "driver/explain/verdict_together.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "driver/explain/kernel_summary.h"
#include "plan/fusion_graph.h"
#include "plan/kernel_times.h"
#include "plan/known_groups.h"

namespace weft {

namespace {

/// Edges on the way that are written out.
constexpr size_t kMostNotes = 6;

using Groups = std::set<int>;

class Asked {
 public:
  explicit Asked(const Explained& c)
      : c_(c),
        graph_(c.tensors),
        known_(c.tensors, c.target, answers_),
        times_(c.tensors, c.target, known_) {
    for (const PlannedKernel& kernel : c.plan.kernels) {
      for (const Group& group : groups_in(kernel)) join(group, kernel.copies);
    }
  }

  Result<EdgeVerdict> verdict(const std::string& from, const std::string& to) {
    WEFT_ASSIGN_OR_RETURN(const std::vector<int> a, steps_of(from));
    WEFT_ASSIGN_OR_RETURN(const std::vector<int> b, steps_of(to));
    if (auto fused = in_one(a, b)) return std::move(*fused);
    Groups all;
    for (const std::vector<int>* steps : {&a, &b}) {
      for (const int s : *steps) all.insert(graph_.group_of(s));
    }
    const Groups between = on_paths(all);
    all.insert(between.begin(), between.end());
    if (all.size() == 1) return EdgeVerdict{"fused", "both are one opaque step", {}};
    for (const int g : all) {
      if (graph_.is_opaque(g))
        return EdgeVerdict{
            "illegal", name_of(g) + " is an opaque step, which shares no kernel", {}};
    }
    return as_one(std::vector<int>(all.begin(), all.end()));
  }

 private:
  static std::vector<Group> groups_in(const PlannedKernel& kernel) {
    return kernel.members.empty() ? std::vector<Group>{kernel.group} : kernel.members;
  }

  /// The steps of a kernel, without those that another makes. Where only copies keep two kernels
  /// from waiting for each other, theirs stay apart here.
  void join(const Group& group, const std::vector<ExprId>& copies) {
    std::set<int> ids;
    for (const ExprId e : group.exprs) {
      if (std::ranges::find(copies, e) == copies.end()) ids.insert(graph_.group_of(step_of(e)));
    }
    const std::vector<int> all(ids.begin(), ids.end());
    if (all.size() > 1 && graph_.is_convex(all)) graph_.merge(all);
  }

  int step_of(ExprId e) const {
    const auto& steps = c_.tensors.steps;
    const auto found =
        std::ranges::find_if(steps, [&](const auto& s) { return !s.opaque && s.index == e; });
    return static_cast<int>(found - steps.begin());
  }

  Result<std::vector<int>> steps_of(const std::string& name) const {
    std::vector<int> out;
    for (int s = 0; s < graph_.size(); ++s) {
      const std::vector<std::string> names = step_names(c_.tensors, s);
      if (std::ranges::find(names, name) != names.end()) out.push_back(s);
    }
    if (!out.empty()) return out;
    return invalid_input("no node '" + name +
                         "' in a kernel outside of loops; `weft explain --json` lists them");
  }

  Groups reached(const Groups& from, bool forwards) const {
    Groups out = from;
    std::vector<int> open(from.begin(), from.end());
    while (!open.empty()) {
      const int g = open.back();
      open.pop_back();
      for (const int next : forwards ? graph_.consumers(g) : graph_.producers(g)) {
        if (out.insert(next).second) open.push_back(next);
      }
    }
    return out;
  }

  /// Those that wait for one of the groups and that another waits for.
  Groups on_paths(const Groups& ends) const {
    const Groups behind = reached(ends, true), before = reached(ends, false);
    Groups out;
    std::ranges::set_intersection(behind, before, std::inserter(out, out.end()));
    return out;
  }

  std::string name_of(int group) const {
    return step_names(c_.tensors, graph_.steps(group).back()).back();
  }

  std::string kernel_of(int group) const {
    for (const PlannedKernel& kernel : c_.plan.kernels) {
      for (const ExprId e : kernel.group.exprs) {
        if (!graph_.holds(group, step_of(e))) continue;
        return kernel.members.empty() ? kernel.name : name_of(group) + " in " + kernel.name;
      }
    }
    return name_of(group);
  }

  bool holds_any(const Group& group, const std::vector<int>& steps) const {
    return std::ranges::any_of(steps, [&](int s) {
      const TensorProgram::Step& step = c_.tensors.steps[static_cast<size_t>(s)];
      return !step.opaque && std::ranges::find(group.exprs, step.index) != group.exprs.end();
    });
  }

  std::optional<EdgeVerdict> in_one(const std::vector<int>& a, const std::vector<int>& b) const {
    for (const PlannedKernel& kernel : c_.plan.kernels) {
      for (const Group& group : groups_in(kernel)) {
        if (!holds_any(group, a) || !holds_any(group, b)) continue;
        return EdgeVerdict{"fused",
                           fmt::format("both are in kernel {}, {:.1f} us", kernel.name,
                                       kernel.schedule.estimate.microseconds),
                           {}};
      }
    }
    return std::nullopt;
  }

  EdgeVerdict as_one(const std::vector<int>& ids) {
    EdgeVerdict out;
    double apart = 0;
    for (const int g : ids) apart += times_.latency(graph_.group(g));
    const Group merged = graph_.merged(ids);
    const Decision leaf = known_.can_be_leaf(merged);
    const Result<double> block = leaf ? unsupported("") : known_.block_us(merged);
    const std::string these = fmt::format("{} kernels ({})", ids.size(), names_of(ids));
    if (!leaf && !block.ok()) {
      out.verdict = "illegal";
      out.reason = fmt::format("{}, {:.1f} us; as blocks of stages: {}; they stay {}",
                               leaf.reason(), apart, block.error().message, these);
      note_cuts(ids, &out);
      return out;
    }
    const double together = leaf ? times_.latency(merged) : *block;
    const std::string form = leaf ? "one kernel" : "one kernel of blocks of stages";
    out.verdict = together < apart ? "possible" : "unprofitable";
    out.reason = fmt::format("{} takes {:.1f} us, {} {:.1f} us", form, together, these, apart);
    note_cuts(ids, &out);
    if (together >= apart) {
      const double launch =
          c_.target.launch_us + (together - apart) / static_cast<double>(ids.size() - 1);
      out.notes.push_back(
          fmt::format("it would pay from a launch of {:.1f} us on; {} has {:.1f} us", launch,
                      c_.target.name, c_.target.launch_us));
    } else {
      out.notes.push_back(
          "the planner did not come upon it: --plan best and --plan dp ask for more"
          ", --compositions leaf,block for blocks of stages");
    }
    return out;
  }

  std::string names_of(const std::vector<int>& ids) const {
    std::string out;
    for (size_t i = 0; i < std::min(ids.size(), kMostNotes); ++i)
      out += (i == 0 ? "" : ", ") + kernel_of(ids[i]);
    return ids.size() > kMostNotes ? out + fmt::format(", … {} more", ids.size() - kMostNotes)
                                   : out;
  }

  /// The edges between these groups that were cut.
  void note_cuts(const std::vector<int>& ids, EdgeVerdict* out) const {
    size_t cuts = 0;
    for (const EdgeDecision& e : c_.plan.edges) {
      const int a = graph_.group_of(e.producer), b = graph_.group_of(e.consumer);
      if (e.verdict == EdgeDecision::Verdict::kFused || a == b ||
          !std::ranges::binary_search(ids, a) || !std::ranges::binary_search(ids, b))
        continue;
      if (++cuts > kMostNotes) continue;
      out->notes.push_back(fmt::format(
          "{} -> {}: {}: {}", step_names(c_.tensors, e.producer).back(),
          step_names(c_.tensors, e.consumer).back(), verdict_name(e.verdict), e.reason));
    }
    if (cuts > kMostNotes) out->notes.push_back(fmt::format("… {} more edges", cuts - kMostNotes));
  }

  const Explained& c_;
  FusionGraph graph_;
  GroupAnswers answers_;
  KnownGroups known_;
  KernelTimes times_;
};

}  // namespace

Result<EdgeVerdict> verdict_together(const Explained& c, const std::string& from,
                                     const std::string& to) {
  return Asked(c).verdict(from, to);
}

}  // namespace weft
