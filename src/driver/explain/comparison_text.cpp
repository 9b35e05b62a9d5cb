#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "driver/explain/compare_plans.h"

namespace weft {

namespace {

using Json = nlohmann::ordered_json;
using Kind = KernelChange::Kind;

int64_t kernel_count(const ComparedPlan& plan) {
  const PlanTotals& t = plan.totals;
  return t.memory_kernels + t.compute_kernels + t.library_calls;
}

std::string plan_line(std::string_view label, const ComparedPlan& plan) {
  return fmt::format(
      "{:<5}{}: {} kernels, {:.1f} us predicted on {}, {:.1f} MB moved, arena {:.0f} KB\n", label,
      plan.name, kernel_count(plan), plan.totals.predicted_us, plan.target,
      static_cast<double>(plan.totals.bytes_read + plan.totals.bytes_written) * 1e-6,
      static_cast<double>(plan.arena_bytes) * 1e-3);
}

double microseconds(const std::vector<ComparedKernel>& kernels) {
  double us = 0;
  for (const ComparedKernel& kernel : kernels) us += kernel.predicted_us;
  return us;
}

std::string kernel_line(std::string_view label, const ComparedKernel& kernel, bool built) {
  return fmt::format("    {:<4}{:>5}  {:>9.1f} us  {}{}{}\n", label, kernel.number,
                     kernel.predicted_us, kernel.name, built ? "\n             " : "",
                     built ? kernel.built : "");
}

std::string change_text(const KernelChange& change) {
  const double was = microseconds(change.was), now = microseconds(change.now);
  std::string out =
      fmt::format("  {}: {} kernel{} of {:.1f} us {} {} of {:.1f} us ({:+.1f} us)\n",
                  kind_name(change.kind), change.was.size(), change.was.size() == 1 ? "" : "s", was,
                  "became", change.now.size(), now, now - was);
  const bool built = change.kind == Kind::kRebuilt;
  for (const ComparedKernel& kernel : change.was) out += kernel_line("was", kernel, built);
  for (const ComparedKernel& kernel : change.now) out += kernel_line("now", kernel, built);
  return out;
}

std::string end_to_end_line(const PlanComparison& comparison) {
  const auto e = end_to_end(comparison);
  if (!e) return "";
  return fmt::format(
      "end to end: {:.1f}% of the time before is of kernels that changed, now {:.2f}x as fast: "
      "{:.2f}x\n",
      100 * e->fusable_ratio, e->fusion_speedup, e->predicted());
}

Json plan_json(const ComparedPlan& plan) {
  return {{"name", plan.name},
          {"target", plan.target},
          {"kernels", kernel_count(plan)},
          {"predicted_us", plan.totals.predicted_us},
          {"bytes", plan.totals.bytes_read + plan.totals.bytes_written},
          {"arena_bytes", plan.arena_bytes}};
}

Json kernels_json(const std::vector<ComparedKernel>& kernels) {
  Json out = Json::array();
  for (const ComparedKernel& k : kernels) {
    out.push_back({{"name", k.name},
                   {"number", k.number},
                   {"ops", k.ops},
                   {"built", k.built},
                   {"predicted_us", k.predicted_us},
                   {"bytes", k.bytes}});
  }
  return out;
}

}  // namespace

std::optional<EndToEnd> end_to_end(const PlanComparison& comparison) {
  double all = 0, was = 0, now = 0;
  for (const KernelChange& change : comparison.changes) {
    const double before = microseconds(change.was);
    all += before;
    if (change.kind == Kind::kSame) continue;
    was += before;
    now += microseconds(change.now);
  }
  if (was <= 0 || now <= 0) return std::nullopt;
  return EndToEnd{was / all, was / now};
}

std::string comparison_text(const PlanComparison& comparison) {
  size_t count[3] = {0, 0, 0};
  std::string changes;
  for (const KernelChange& change : comparison.changes) {
    count[static_cast<size_t>(change.kind)] += change.now.size();
    if (change.kind != Kind::kSame) changes += change_text(change);
  }
  return plan_line("was", comparison.was) + plan_line("now", comparison.now) +
         fmt::format("{} kernels are the same, {} are built otherwise, {} hold other nodes\n{}{}{}",
                     count[0], count[1], count[2], end_to_end_line(comparison),
                     changes.empty() ? "" : "\n", changes);
}

std::string comparison_json(const PlanComparison& comparison) {
  Json j{{"was", plan_json(comparison.was)}, {"now", plan_json(comparison.now)}};
  if (const auto e = end_to_end(comparison)) {
    j["end_to_end"] = {{"fusable_ratio", e->fusable_ratio},
                       {"fusion_speedup", e->fusion_speedup},
                       {"predicted", e->predicted()}};
  }
  j["changes"] = Json::array();
  for (const KernelChange& change : comparison.changes) {
    j["changes"].push_back({{"kind", kind_name(change.kind)},
                            {"was", kernels_json(change.was)},
                            {"now", kernels_json(change.now)}});
  }
  return j.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weft
