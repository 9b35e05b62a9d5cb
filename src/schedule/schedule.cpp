#include "schedule/schedule.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "schedule/calls/library_call.h"
#include "schedule/gpu/choose_two_ways.h"
#include "schedule/gpu/matrix_product.h"
#include "schedule/leaf/leaf_time.h"
#include "schedule/stages/compose_block.h"
#include "schedule/stages/compose_chain.h"
#include "tile/analysis/derive_scopes.h"

namespace weft {

namespace {

Decision leaf_decision(const Result<GroupSpace>& space, const Target& target) {
  return space.ok() ? can_be_leaf(*space, target) : Decision::forbid(space.error().message);
}

std::string neither(const Decision& leaf, const Error& block) {
  return leaf.reason() + "; as blocks of stages: " + block.message;
}

}  // namespace

Decision can_schedule(const TensorProgram& program, const Group& group, const Target& target) {
  const Decision leaf = leaf_decision(GroupSpace::of(program, group, target), target);
  if (leaf) return leaf;
  const auto block = compose_block(BlockSpace(program, group, target), target, "k", nullptr);
  return block.ok() ? Decision::allow() : Decision::forbid(neither(leaf, block.error()));
}

Result<PredictedBlock> predicted_block(const TensorProgram& program, const Group& group,
                                       const GroupKey& key, const Target& target, double most_us) {
  WEFT_ASSIGN_OR_RETURN(
      ScheduledKernel kernel,
      compose_block(BlockSpace(program, group, target, &key), target, "k", nullptr, most_us));
  return PredictedBlock{kernel.estimate.microseconds, std::move(kernel.composition)};
}

Decision can_reduce_both_ways(const GroupSpace& space, const Target& target) {
  if (!target.is_gpu() || space.axes().reductions.size() < 2 || space.has_contraction())
    return Decision::forbid("the group does not reduce in two ways");
  return reduces_two_ways(space, target);
}

Result<ScheduledKernel> schedule_chain(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name,
                                       const ChainSearch& search) {
  return compose_chain(BlockSpace(program, group, target), target, name, nullptr, search);
}

namespace {

/// What follows for any choice: the estimate, the library's call, and tensors by their number in
/// the program.
void finish(const GroupSpace& space, const Target& target, std::map<TensorId, Layout> orders,
            ScheduledKernel* kernel) {
  kernel->estimate =
      CostModel(space.declared(), target).estimate(space.group().exprs, space.group().outputs);
  kernel->library = library_call(space.declared(), space.group(), space.axes(), kernel->estimate,
                                 kernel->parameters, target);
  if (kernel->library) {
    kernel->schedule_template = library_of(*kernel->library);
    kernel->composition.library = kernel->schedule_template;
    kernel->estimate.microseconds = library_us(*kernel->library, kernel->estimate, target);
  } else {
    const int64_t bytes = kernel->estimate.bytes_read + kernel->estimate.bytes_written;
    kernel->estimate.microseconds = leaf_us(*kernel, bytes, target);
  }
  for (TensorId& t : kernel->parameters) t = space.original()[static_cast<size_t>(t)];
  kernel->orders = std::move(orders);
}

}  // namespace

Result<ScheduledKernel> schedule_leaf(const TensorProgram& program, const Group& group,
                                      const Target& target, const std::string& name,
                                      const GroupKey* key, const PhysicalLeaves* known,
                                      std::span<const MeasuredComposition> measured) {
  std::map<TensorId, Layout> orders = library_orders(program, group, target);
  WEFT_ASSIGN_OR_RETURN(
      const GroupSpace space,
      GroupSpace::of(program, group, target, {.orders = &orders, .key = key, .known = known}));
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel,
                        rank_candidates(space, target, name, measured, nullptr));
  finish(space, target, std::move(orders), &kernel);
  return kernel;
}

std::optional<double> predicted_built_us(const TensorProgram& program, const Group& group,
                                         const Target& target) {
  const auto kernel = schedule_leaf(program, group, target, "k");
  if (!kernel.ok()) return std::nullopt;
  return kernel->estimate.microseconds;
}

Result<ScheduledKernel> schedule_group(const TensorProgram& program, const Group& group,
                                       const Target& target, const std::string& name,
                                       std::span<const MeasuredComposition> measured) {
  auto leaf = schedule_leaf(program, group, target, name, nullptr, nullptr, measured);
  if (leaf.ok() || leaf.error().code != ErrorCode::kUnsupported) return leaf;
  auto block = compose_block(BlockSpace(program, group, target), target, name, nullptr);
  if (block.ok()) return block;
  return unsupported(leaf.error().message + "; as blocks of stages: " + block.error().message);
}

namespace {

Result<ScheduledKernel> build_leaf(const TensorProgram& program, const Group& group,
                                   const Composition& composition, const Target& target,
                                   const std::string& name) {
  std::map<TensorId, Layout> orders = library_orders(program, group, target);
  WEFT_ASSIGN_OR_RETURN(const GroupSpace space,
                        GroupSpace::of(program, group, target, {.orders = &orders}));
  for (const Template& t : templates_of(target)) {
    if (t.name != choice_name(composition.choice)) continue;
    if (const Fit fit = t.applies(space, target); fit.kind != Fit::Kind::kBuilds)
      return invalid_input("the template " + std::string(t.name) + " does not hold " + name + ": " +
                           fit.reason);
    WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel, t.build(space, composition.choice, target, name));
    WEFT_ASSIGN_OR_RETURN(kernel.scopes, derive_scopes(kernel.program));
    kernel.composition = composition;
    kernel.composition.library.clear();
    finish(space, target, std::move(orders), &kernel);
    if (kernel.composition.library != composition.library && !composition.library.empty())
      return invalid_input(target.name + " makes no call of " + composition.library + " for " +
                           name);
    return kernel;
  }
  return invalid_input(target.name + " has no template " +
                       std::string(choice_name(composition.choice)));
}

}  // namespace

Result<ScheduledKernel> build_composition(const TensorProgram& program, const Group& group,
                                          const Composition& composition, const Target& target,
                                          const std::string& name) {
  if (composition.has_members())
    return invalid_input(name + " is one group, and is composed as several");
  if (composition.kind == Composition::Kind::kLeaf)
    return build_leaf(program, group, composition, target, name);
  const BlockSpace space(program, group, target);
  return composition.kind == Composition::Kind::kChain
             ? build_composed_chain(space, composition, target, name)
             : build_as_composed(space, composition, target, name);
}

Result<std::vector<Considered>> considered_candidates(
    const TensorProgram& program, const Group& group, Composition::Kind composed,
    const Target& target, std::span<const MeasuredComposition> measured) {
  const std::map<TensorId, Layout> orders = library_orders(program, group, target);
  const auto leaf = GroupSpace::of(program, group, target, {.orders = &orders});
  std::vector<Considered> out;
  if (!leaf.ok() || !can_be_leaf(*leaf, target)) {
    const BlockSpace space(program, group, target);
    const auto chain = compose_chain(space, target, "k", &out);
    const size_t chains = out.size();
    const auto block = compose_block(space, target, "k", &out);
    if (!chain.ok() && !block.ok()) return block.error();
    const bool is_chain = composed == Composition::Kind::kChain;
    for (size_t c = 0; c < out.size(); ++c) {
      if (!out[c].chosen || (c < chains) == is_chain) continue;
      out[c].chosen = false;
      out[c].why_not = is_chain ? "the planner makes a chain of it" : "the planner makes no chain";
    }
    return out;
  }
  const GroupSpace& space = *leaf;
  WEFT_ASSIGN_OR_RETURN(ScheduledKernel kernel,
                        rank_candidates(space, target, "k", measured, &out));
  finish(space, target, orders, &kernel);
  if (!kernel.library) return out;
  for (Considered& c : out) {
    if (c.chosen) c.why_not = "runs where the library is missing";
    c.chosen = false;
  }
  out.insert(out.begin(),
             {"call " + kernel.composition.library, {}, kernel.estimate.microseconds, true, {}});
  return out;
}

namespace {

/// As many as MCFuser measures of a round.
constexpr size_t kMostToMeasure = 8;

/// Chains of the group, or its blocks of stages.
std::vector<Composition> others_in_blocks(const TensorProgram& program, const Group& group,
                                          const Composition& present, const Target& target) {
  const BlockSpace space(program, group, target);
  std::vector<Composition> out = present.kind == Composition::Kind::kChain
                                     ? chains_to_measure(space, target, kMostToMeasure)
                                     : blocks_to_measure(space, target, kMostToMeasure);
  std::erase(out, present);
  return out;
}

}  // namespace

std::vector<Composition> others_to_measure(const TensorProgram& program, const Group& group,
                                           const Composition& present, const Target& target) {
  if (present.kind == Composition::Kind::kChain || present.kind == Composition::Kind::kBlock)
    return others_in_blocks(program, group, present, target);
  std::vector<Composition> out;
  if (present.kind != Composition::Kind::kLeaf || !present.library.empty()) return out;
  const std::map<TensorId, Layout> orders = library_orders(program, group, target);
  const auto space = GroupSpace::of(program, group, target, {.orders = &orders});
  if (!space.ok()) return out;
  for (const Template& t : templates_of(target)) {
    if (t.applies(*space, target).kind != Fit::Kind::kBuilds) continue;
    std::vector<Choice> choices;
    for (Candidate& candidate : t.candidates(*space, target))
      choices.push_back(std::move(candidate.choice));
    if (t.others != nullptr)
      std::ranges::move(t.others(*space, target), std::back_inserter(choices));
    for (Choice& choice : choices) {
      Composition leaf;
      leaf.choice = std::move(choice);
      if (leaf != present && std::ranges::find(out, leaf) == out.end())
        out.push_back(std::move(leaf));
    }
  }
  return out;
}

std::optional<double> predicted_library_us(const TensorProgram& program, const Group& group,
                                           const Target& target) {
  if (target.libraries.empty()) return std::nullopt;
  const std::map<TensorId, Layout> orders = library_orders(program, group, target);
  const auto space = GroupSpace::of(program, group, target, {.orders = &orders});
  if (!space.ok()) return std::nullopt;
  const Estimate estimate =
      CostModel(space->declared(), target).estimate(space->group().exprs, space->group().outputs);
  std::vector<TensorId> tensors(space->declared().tensors.size());
  std::iota(tensors.begin(), tensors.end(), 0);
  const auto call =
      library_call(space->declared(), space->group(), space->axes(), estimate, tensors, target);
  if (!call) return std::nullopt;
  return library_us(*call, estimate, target);
}

std::optional<double> predicted_product_us(const TensorProgram& program, const Group& group,
                                           const Target& target) {
  const auto space = GroupSpace::of(program, group, target);
  if (!space.ok() || space->axes().reductions.empty()) return std::nullopt;
  const auto product = find_product(*space, target);
  if (!product.ok()) return std::nullopt;
  const auto tiles = tiles_of(*product, target, 1);
  if (!tiles.ok()) return std::nullopt;
  return tiles->front().microseconds;
}

}  // namespace weft
