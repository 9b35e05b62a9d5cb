#include "plan/topological_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace weft {
namespace {

void expect_order(const TopologicalOrder& order, const std::vector<int>& numbers) {
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    EXPECT_TRUE(order.before(numbers[i], numbers[i + 1])) << numbers[i] << " " << numbers[i + 1];
    EXPECT_FALSE(order.before(numbers[i + 1], numbers[i])) << numbers[i] << " " << numbers[i + 1];
  }
}

TEST(TopologicalOrder, MovesAsAListDoes) {
  std::mt19937 random(1);
  std::vector<int> numbers(20);
  std::iota(numbers.begin(), numbers.end(), 0);
  TopologicalOrder order(20);
  expect_order(order, numbers);
  for (int i = 0; i < 500; ++i) {
    const int anchor = numbers[random() % numbers.size()];
    const int number = numbers[random() % numbers.size()];
    const bool behind = random() % 2 == 0;
    behind ? order.move_behind(anchor, number) : order.move_before(anchor, number);
    if (anchor != number) {
      std::erase(numbers, number);
      numbers.insert(std::ranges::find(numbers, anchor) + (behind ? 1 : 0), number);
    }
    expect_order(order, numbers);
  }
}

/// The gap behind the anchor halves each time.
TEST(TopologicalOrder, MakesRoomBehindOneAnchor) {
  TopologicalOrder order(200);
  std::vector<int> numbers = {0};
  for (int i = 199; i > 0; --i) {
    order.move_behind(0, i);
    numbers.insert(numbers.begin() + 1, i);
  }
  expect_order(order, numbers);
}

TEST(TopologicalOrder, ClosesTheGapOfWhatIsRemoved) {
  TopologicalOrder order(3);
  order.remove(1);
  order.move_before(0, 2);
  expect_order(order, {2, 0});
  order.move_behind(2, 1);
  expect_order(order, {2, 1, 0});
}

}  // namespace
}  // namespace weft
