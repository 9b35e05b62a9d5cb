#include "plan/known_groups.h"

#include "schedule/leaf/template_table.h"

namespace weft {

GroupAnswers::Known& KnownGroups::known_of(const GroupKey& key) {
  throw_if_cancelled(cancel_);
  return answers_.known_[key.hash];
}

Decision KnownGroups::named(const Decision& decision, const GroupKey& key) const {
  return decision ? decision : Decision::forbid(with_names(decision.reason(), key, program_));
}

Decision KnownGroups::ask(std::string_view question, const Group& group,
                          const std::function<Decision(const GroupSpace&)>& answer) {
  const GroupKey key = keys_.of(group);
  std::map<std::string_view, Decision>& known = known_of(key).decisions;
  auto found = known.find(question);
  if (found == known.end()) {
    const auto space = GroupSpace::of(program_, group, target_, {.key = &key, .known = &leaves_});
    found = known
                .emplace(question,
                         space.ok() ? answer(*space) : Decision::forbid(space.error().message))
                .first;
  }
  return named(found->second, key);
}

/// Whether the group is without contractions that are library calls of their own, or one alone.
Decision KnownGroups::shares_no_call(const Group& group) const {
  if (!compute_as_calls_ || group.exprs.size() < 2) return Decision::allow();
  for (const ExprId e : group.exprs) {
    const TensorExpr& expr = program_.exprs[static_cast<size_t>(e)];
    if (!expr.is_contraction) continue;
    return Decision::forbid(program_.tensors[static_cast<size_t>(expr.output)].name +
                            " counts as a library call of its own");
  }
  return Decision::allow();
}

Decision KnownGroups::can_be_leaf(const Group& group) {
  if (Decision alone = shares_no_call(group); !alone) return alone;
  return ask("leaf", group,
             [&](const GroupSpace& space) { return weft::can_be_leaf(space, target_); });
}

Decision KnownGroups::can_reduce_both_ways(const Group& group) {
  if (Decision alone = shares_no_call(group); !alone) return alone;
  return ask("two ways", group,
             [&](const GroupSpace& space) { return weft::can_reduce_both_ways(space, target_); });
}

Result<double> KnownGroups::block_us(const Group& group, double most_us) {
  if (const Decision alone = shares_no_call(group); !alone) return unsupported(alone.reason());
  const GroupKey key = keys_.of(group);
  GroupAnswers::Known& known = known_of(key);
  std::optional<Result<PredictedBlock>>& block = known.block;
  if (!block || (!block->ok() && known.block_most_us < most_us)) {
    block = predicted_block(program_, group, key, target_, most_us);
    known.block_most_us = most_us;
  }
  if (block->ok()) return (*block)->microseconds;
  return unsupported(with_names(block->error().message, key, program_));
}

const Composition* KnownGroups::known_block(const Group& group) {
  const std::optional<Result<PredictedBlock>>& block = known_of(keys_.of(group)).block;
  return block && block->ok() ? &(*block)->composition : nullptr;
}

std::optional<double> KnownGroups::built_us(const Group& group) {
  std::optional<std::optional<double>>& known = known_of(keys_.of(group)).built_us;
  if (!known) known = predicted_built_us(program_, group, target_);
  return *known;
}

std::optional<double> KnownGroups::product_us(const Group& group) {
  std::optional<std::optional<double>>& known = known_of(keys_.of(group)).product_us;
  if (!known) known = predicted_product_us(program_, group, target_);
  return *known;
}

std::optional<double> KnownGroups::library_us(const Group& group) {
  std::optional<std::optional<double>>& known = known_of(keys_.of(group)).library_us;
  if (!known) known = predicted_library_us(program_, group, target_);
  return *known;
}

}  // namespace weft
