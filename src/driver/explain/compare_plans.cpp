#include "driver/explain/compare_plans.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "driver/explain/kernel_summary.h"

namespace weft {

namespace {

/// An expression of a plan: where it stands, and by which names it may be known.
struct Member {
  std::string tensor;
  std::vector<std::string> nodes;
};

struct Kernel {
  ComparedKernel shown;
  std::vector<Member> members;
  std::set<std::string> keys;
};

/// The kernels of a plan in the order in which they run, those of regions behind their step.
class KernelReader {
 public:
  static std::vector<Kernel> read(const Explained& e) {
    KernelReader reader;
    int number = 0;
    reader.plan(e.plan, e.tensors, 1, "", &number);
    return std::move(reader.kernels_);
  }

 private:
  void plan(const FusionPlan& plan, const TensorProgram& program, int64_t times,
            const std::string& prefix, int* number) {
    for (const FusionPlan::Step& step : plan.order) {
      const std::string shown = prefix + std::to_string(++*number);
      const auto index = static_cast<size_t>(step.index);
      if (!step.opaque) {
        kernel(plan.kernels[index], program, times, prefix, shown);
        continue;
      }
      const OpaqueExpr& opaque = program.opaques[index];
      const int64_t inner = region_runs(program, opaque, plan.regions[index], times);
      int inside = 0;
      for (size_t r = 0; r < plan.regions[index].size(); ++r)
        this->plan(*plan.regions[index][r], *opaque.regions[r], inner, shown + ".", &inside);
    }
  }

  void kernel(const PlannedKernel& kernel, const TensorProgram& program, int64_t times,
              const std::string& prefix, const std::string& number) {
    const Estimate& e = kernel.schedule.estimate;
    Kernel out;
    out.shown = {kernel.name,
                 number,
                 origin_names(program, kernel.group),
                 print(kernel.schedule.composition),
                 static_cast<double>(times) * e.microseconds,
                 times * (e.bytes_read + e.bytes_written)};
    for (const std::string& copy : copied_names(program, kernel))
      out.shown.built += ", makes " + copy + " again";
    // Regions have names of their own: what they belong to stands before them.
    members(kernel, program, prefix.empty() ? "" : kInside, out);
    for (const LoopMember& loop : kernel.loops) {
      const OpaqueExpr& scan = program.opaques[static_cast<size_t>(loop.opaque)];
      for (const PlannedKernel& inner : loop.body->kernels)
        members(inner, *scan.regions.back(), kInside, out);
    }
    kernels_.push_back(std::move(out));
  }

  static constexpr const char* kInside = "in a region: ";
  static void members(const PlannedKernel& kernel, const TensorProgram& program,
                      const std::string& place, Kernel& out) {
    for (const ExprId id : kernel.group.exprs) {
      if (std::ranges::find(kernel.copies, id) != kernel.copies.end()) continue;
      const TensorExpr& expr = program.exprs[static_cast<size_t>(id)];
      Member member{place + program.tensors[static_cast<size_t>(expr.output)].name, {}};
      for (const std::string& node : origin_names(program, Group{{id}, {}}))
        member.nodes.push_back("node " + node);
      out.members.push_back(std::move(member));
    }
  }

  std::vector<Kernel> kernels_;
};

std::set<std::string> tensors_of(const std::vector<Kernel>& kernels) {
  std::set<std::string> names;
  for (const Kernel& kernel : kernels) {
    for (const Member& member : kernel.members) names.insert(member.tensor);
  }
  return names;
}

/// Names that both plans know an expression by.
void choose_keys(const std::set<std::string>& known_there, std::vector<Kernel>* kernels) {
  for (Kernel& kernel : *kernels) {
    for (const Member& member : kernel.members) {
      if (known_there.contains(member.tensor) || member.nodes.empty()) {
        kernel.keys.insert(member.tensor);
      } else {
        kernel.keys.insert(member.nodes.begin(), member.nodes.end());
      }
    }
  }
}

/// Sets of kernels, joined where they share a key.
class JoinedKernels {
 public:
  explicit JoinedKernels(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t find(size_t k) {
    while (parent_[k] != k) k = parent_[k] = parent_[parent_[k]];
    return k;
  }
  void add(const std::set<std::string>& keys, size_t kernel) {
    for (const std::string& key : keys) {
      const auto [it, fresh] = holder_.emplace(key, kernel);
      if (!fresh) parent_[find(kernel)] = find(it->second);
    }
  }

 private:
  std::vector<size_t> parent_;
  std::map<std::string, size_t> holder_;
};

KernelChange::Kind kind_of(const KernelChange& change, const Kernel& was, const Kernel& now) {
  using Kind = KernelChange::Kind;
  const bool one = change.was.size() == 1 && change.now.size() == 1;
  if (!one || was.keys != now.keys) return Kind::kRegrouped;
  return was.shown.built == now.shown.built ? Kind::kSame : Kind::kRebuilt;
}

ComparedPlan whole(const Explained& e) {
  return {e.planner, e.target.name, plan_totals(e.plan, e.tensors, e.ops), e.planned_arena_bytes};
}

}  // namespace

std::string_view kind_name(KernelChange::Kind kind) {
  constexpr std::string_view kNames[] = {"same", "rebuilt", "regrouped"};
  return kNames[static_cast<size_t>(kind)];
}

PlanComparison compare_plans(const Explained& was, const Explained& now) {
  std::vector<Kernel> before = KernelReader::read(was), after = KernelReader::read(now);
  const std::set<std::string> known_before = tensors_of(before), known_after = tensors_of(after);
  choose_keys(known_after, &before);
  choose_keys(known_before, &after);

  JoinedKernels joined(after.size() + before.size());
  for (size_t k = 0; k < after.size(); ++k) joined.add(after[k].keys, k);
  for (size_t k = 0; k < before.size(); ++k) joined.add(before[k].keys, after.size() + k);

  PlanComparison out{whole(was), whole(now), {}};
  std::map<size_t, size_t> change_of;  // by the set's root
  std::vector<std::pair<size_t, size_t>> first;
  const auto change_at = [&](size_t kernel) -> KernelChange& {
    const auto [it, fresh] = change_of.emplace(joined.find(kernel), out.changes.size());
    if (fresh) out.changes.emplace_back();
    return out.changes[it->second];
  };
  for (size_t k = 0; k < after.size(); ++k) change_at(k).now.push_back(after[k].shown);
  for (size_t k = 0; k < before.size(); ++k)
    change_at(after.size() + k).was.push_back(before[k].shown);
  first.resize(out.changes.size());
  for (size_t k = after.size(); k-- > 0;) first[change_of[joined.find(k)]].second = k;
  for (size_t k = before.size(); k-- > 0;)
    first[change_of[joined.find(after.size() + k)]].first = k;
  for (size_t c = 0; c < out.changes.size(); ++c) {
    KernelChange& change = out.changes[c];
    change.kind = KernelChange::Kind::kRegrouped;
    if (change.was.empty() || change.now.empty()) continue;
    change.kind = kind_of(change, before[first[c].first], after[first[c].second]);
  }
  return out;
}

}  // namespace weft
