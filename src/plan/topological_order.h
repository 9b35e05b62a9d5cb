#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

/// The numbers 0 to n - 1 in an order that changes: a list whose labels rise, so that two numbers
/// are compared at once and one that moves touches no other (Dietz and Sleator, "Two algorithms for
/// maintaining order in a list", STOC 1987, with labels that are made anew where a gap is full).
class TopologicalOrder {
 public:
  /// 0, 1, 2, …
  explicit TopologicalOrder(int count);

  bool before(int a, int b) const { return label(a) < label(b); }
  /// Takes `number` from its place to the one right behind or right before `anchor`.
  void move_behind(int anchor, int number);
  void move_before(int anchor, int number);
  void remove(int number);

 private:
  int64_t& label(int number) { return labels_[static_cast<size_t>(number)]; }
  int64_t label(int number) const { return labels_[static_cast<size_t>(number)]; }
  int& next(int number) { return next_[static_cast<size_t>(number)]; }
  int& previous(int number) { return previous_[static_cast<size_t>(number)]; }
  void relabel();

  int end_;  ///< stands before the first and behind the last
  std::vector<int64_t> labels_;
  std::vector<int> next_, previous_;
};

}  // namespace weft
