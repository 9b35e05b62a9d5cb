#include "plan/topological_order.h"

namespace weft {

namespace {

/// Between labels that are made anew: a place may take 32 numbers, one behind the other, before the
/// gap is full, and 2^31 labels fit 63 bits.
constexpr int64_t kGap = int64_t{1} << 32;

}  // namespace

TopologicalOrder::TopologicalOrder(int count) : end_(count) {
  for (int i = 0; i <= count; ++i) {
    next_.push_back(i == count ? 0 : i + 1);
    previous_.push_back(i == 0 ? count : i - 1);
  }
  labels_.resize(static_cast<size_t>(count) + 1);
  relabel();
}

void TopologicalOrder::relabel() {
  int64_t place = 0;
  for (int i = next(end_); i != end_; i = next(i)) label(i) = place += kGap;
}

void TopologicalOrder::move_behind(int anchor, int number) {
  if (anchor == number) return;
  remove(number);
  const int after = next(anchor);
  next(anchor) = previous(after) = number;
  previous(number) = anchor;
  next(number) = after;
  const int64_t low = anchor == end_ ? 0 : label(anchor);
  const int64_t high = after == end_ ? low + 2 * kGap : label(after);
  label(number) = low + (high - low) / 2;
  if (label(number) == low) relabel();
}

void TopologicalOrder::move_before(int anchor, int number) {
  if (anchor != number && previous(anchor) != number) move_behind(previous(anchor), number);
}

void TopologicalOrder::remove(int number) {
  next(previous(number)) = next(number);
  previous(next(number)) = previous(number);
}

}  // namespace weft
