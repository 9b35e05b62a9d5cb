#include "plan/planners/planners.h"

#include "plan/planners/partitions.h"

#include <algorithm>
#include <array>

namespace weft {

namespace {

constexpr Planner kPlanners[] = {
    {.name = "none", .help = "every expression a kernel of its own", .partition = partition_none},
    {.name = "xla",
     .help =
         "XLA's rules: thread composition, producers made again by each reader, several outputs",
     .partition = partition_xla},
    {.name = "greedy",
     .help = "walks the edges and merges where one kernel is predicted to be faster",
     .partition = partition_greedy,
     .merges_products = true,
     .unmerges_for_arena = true,
     .packs_launches = true},
    {.name = "dp",
     .help = "the best patterns that begin at each expression, then a beam over sets of them",
     .partition = partition_dp,
     .merges_products = true,
     .unmerges_for_arena = true,
     .packs_launches = true},
    {.name = "auto",
     .help = "the best that there is: as greedy",
     .partition = partition_greedy,
     .merges_products = true,
     .unmerges_for_arena = true,
     .packs_launches = true},
};

constexpr std::array<std::string_view, 4> kLater = {"span", "ilp", "subprogram", "chain"};

}  // namespace

std::span<const Planner> planners() { return kPlanners; }

std::string planner_names() {
  std::string names;
  for (const Planner& planner : kPlanners) {
    const bool is_last = &planner == &kPlanners[std::size(kPlanners) - 1];
    names += (names.empty() ? "" : is_last ? " or " : ", ") + std::string(planner.name);
  }
  return names;
}

Result<const Planner*> find_planner(std::string_view name) {
  for (const Planner& planner : kPlanners) {
    if (planner.name == name) return &planner;
  }
  const std::string quoted = "planner '" + std::string(name) + "'";
  if (std::ranges::find(kLater, name) != kLater.end())
    return unsupported(quoted + " is not there yet; use " + planner_names());
  return invalid_input("unknown " + quoted + "; known: " + planner_names());
}

}  // namespace weft
