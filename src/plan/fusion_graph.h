#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "expr/tensor_program.h"
#include "group/group.h"
#include "plan/topological_order.h"
#include "support/result.h"

namespace weft {

/// The groups of a program's steps while a planner merges them, and the edges between them. At
/// first each step is a group; an opaque step stays one.
///
/// A question about a path costs the groups between its ends, from the end that sees fewer: they
/// are kept in an order of their dependences, and a walk leaves those beyond the ends alone (Pearce
/// and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", JEA 2007).
///
/// A step may be held by several groups: those that have a copy make it again for themselves. Its
/// own group alone stores what it makes; where each reader has a copy and it is no output of the
/// program, it has none.
///
/// Merges are final. A planner that takes them back keeps them on a stack here: the two groups'
/// steps, neighbours and places in the order.
class FusionGraph {
 public:
  explicit FusionGraph(const TensorProgram& program);

  /// Steps of the program; ids of groups are below it.
  int size() const { return static_cast<int>(group_of_.size()); }

  struct Edge {
    int producer, consumer;  ///< steps
    TensorId tensor;
  };
  /// What a step reads that another makes, each tensor once, the latest producer first.
  const std::vector<Edge>& edges_into(int step) const {
    return edges_into_[static_cast<size_t>(step)];
  }
  /// The groups that a group waits for, and those that wait for it.
  const std::set<int>& producers(int group) const { return producers_[static_cast<size_t>(group)]; }
  const std::set<int>& consumers(int group) const { return consumers_[static_cast<size_t>(group)]; }
  /// The groups that may merge and read a tensor, by rank.
  std::vector<int> readers(TensorId tensor) const;

  /// Ids of groups are those of steps; one ends where its group becomes part of another. -1: there
  /// are copies of the step alone.
  int group_of(int step) const { return group_of_[static_cast<size_t>(step)]; }
  bool is_opaque(int group) const;
  /// The groups that hold a step.
  const std::vector<int>& holders(int step) const { return holders_[static_cast<size_t>(step)]; }
  bool holds(int group, int step) const { return std::ranges::binary_search(steps(group), step); }
  /// All that a group holds, ascending.
  const std::vector<int>& steps(int group) const { return steps_[static_cast<size_t>(group)]; }

  Group group(int id) const;
  /// The union of two groups, with the outputs that it would have.
  Group merged(int a, int b) const;
  Group merged(std::span<const int> groups) const;
  /// A group with a copy of another that it reads.
  Group with_copy(int group, int producer) const;
  /// All but the opaque ones, by rank.
  std::vector<int> ids() const;
  /// The same as what they hold: a step's is its place in the program, the union's that of
  /// the first of the two that merged.
  std::vector<Group> groups() const;

  /// Whether no path leaves these groups and comes back, so that they may merge: the kernel would
  /// wait for itself. The reason names a kernel on such a path.
  Decision is_convex(std::span<const int> groups) const;
  /// Makes one group of two and returns its id.
  ///
  /// Requires: is_convex({a, b}); neither is opaque.
  int merge(int a, int b);
  /// Makes one group of several and returns its id.
  ///
  /// Requires: is_convex(groups); one or more, none of them opaque.
  int merge(std::span<const int> groups);
  /// Gives a group a copy of another that it reads. The other ends where nobody reads it any more.
  /// A path that this adds was there before, so that the groups stay free of cycles.
  ///
  /// Requires: neither is opaque.
  void copy_into(int group, int producer);

 private:
  using Neighbours = std::vector<std::set<int>>;  ///< by group, groups
  using Next = std::function<const std::set<int>&(int group)>;
  struct Walk {
    std::vector<int> met;  ///< groups between the ends
    int last = -1;         ///< one of them that leads back to the groups at which the walk began
  };

  std::vector<int> steps_of_both(int a, int b) const;
  bool is_output(int step) const;
  bool leaves(int step, std::span<const int> groups) const;
  Group make_group(const std::vector<int>& steps, std::span<const int> groups) const;
  void sort_by_rank(std::vector<int>& groups) const;

  std::pair<int, int> ends(std::span<const int> groups) const;
  std::optional<Walk> walk(std::span<const int> from, const Next& next, int64_t budget,
                           bool stops) const;
  Walk walk_within(std::span<const int> from, const std::vector<int>& within) const;
  Decision lies_between(int group) const;
  int place_union(int a, int b);
  void take_neighbours(int kept, int gone);

  const TensorProgram& program_;
  TensorUses uses_;
  std::vector<std::vector<Edge>> edges_into_;  ///< by step; none into opaque ones
  std::vector<int> group_of_;
  std::vector<std::vector<int>> holders_;  ///< by step
  bool has_copies_ = false;
  std::vector<std::vector<int>> steps_;  ///< by group, ascending; empty where it became part of one
  std::vector<int> rank_;
  Neighbours producers_, consumers_;
  TopologicalOrder order_;  ///< of groups
};

}  // namespace weft
