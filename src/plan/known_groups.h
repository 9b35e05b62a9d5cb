#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "group/cut_group.h"
#include "group/group_key.h"
#include "schedule/schedule.h"
#include "support/cancelled.h"

namespace weft {

/// Answers about groups for one target, by their keys. They hold for any program.
class GroupAnswers {
 public:
  /// Groups that something is known of.
  size_t size() const { return known_.size(); }

 private:
  friend class KnownGroups;
  struct Known {
    std::map<std::string_view, Decision> decisions;  ///< reasons with numbers for names
    std::optional<Result<PredictedBlock>> block;
    double block_most_us = 0;  ///< that it was asked with
    std::optional<std::optional<double>> built_us, product_us, library_us;
  };
  std::map<Hash128, Known> known_;
};

/// What planning asked about the groups of one program, by their keys: what holds for one layer of
/// a model holds for the next. Most of planning's time goes into these questions, so that each
/// looks whether planning is to stop, and throws Cancelled.
class KnownGroups {
 public:
  /// `answers` are of this target, and outlive this. `compute_as_calls`: no contraction shares a
  /// kernel with anything.
  KnownGroups(const TensorProgram& program, const Target& target, GroupAnswers& answers,
              CancelFlag cancel = nullptr, bool compute_as_calls = false)
      : program_(program),
        target_(target),
        cancel_(cancel),
        compute_as_calls_(compute_as_calls),
        keys_(program),
        leaves_(program),
        answers_(answers) {}

  GroupKeys& keys() { return keys_; }
  const PhysicalLeaves& leaves() const { return leaves_; }
  CancelFlag cancel() const { return cancel_; }
  bool compute_as_calls() const { return compute_as_calls_; }

  /// As a leaf.
  Decision can_be_leaf(const Group& group);
  /// What a planner of its own asks of groups. Forbidden where the group has no space. `question`
  /// tells its answers from others'.
  Decision ask(std::string_view question, const Group& group,
               const std::function<Decision(const GroupSpace&)>& answer);
  Decision can_reduce_both_ways(const Group& group);
  /// As blocks of stages; why it is none, or takes `most_us` or more.
  Result<double> block_us(const Group& group,
                          double most_us = std::numeric_limits<double>::infinity());
  /// How blocks of stages were composed that the group was predicted as; null: they were not.
  const Composition* known_block(const Group& group);
  /// As a leaf that is built to be weighed.
  std::optional<double> built_us(const Group& group);
  std::optional<double> product_us(const Group& group);
  std::optional<double> library_us(const Group& group);

 private:
  GroupAnswers::Known& known_of(const GroupKey& key);
  Decision shares_no_call(const Group& group) const;
  Decision named(const Decision& decision, const GroupKey& key) const;

  const TensorProgram& program_;
  const Target& target_;
  const CancelFlag cancel_;
  const bool compute_as_calls_;
  GroupKeys keys_;
  PhysicalLeaves leaves_;
  GroupAnswers& answers_;
};

}  // namespace weft
