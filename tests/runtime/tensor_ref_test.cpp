// Copies between a caller's tensor and a dense one, beside a copy of one element after another.

#include "runtime/tensor_ref.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace weft {
namespace {

/// Distinct places: axes in a random order, with gaps, some backwards; `first` is where they begin.
struct RandomStrides {
  std::vector<int64_t> strides;
  int64_t first = 0, span = 1;

  RandomStrides(const std::vector<int64_t>& shape, std::mt19937& random) : strides(shape.size()) {
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    for (const size_t axis : order) {
      const bool backwards = random() % 4 == 0;
      strides[axis] = backwards ? -span : span;
      if (backwards) first += (shape[axis] - 1) * span;
      span *= shape[axis] + static_cast<int64_t>(random() % 4 == 0);
    }
  }
};

TEST(StridedCopies, AreThoseOfElements) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    std::vector<int64_t> shape(random() % 5);
    for (int64_t& extent : shape)
      extent = static_cast<int64_t>(random() % 3 == 0 ? random() % 70 : random() % 4) + 1;
    const auto count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    if (count > 100'000) continue;
    const RandomStrides there(shape, random);
    for (const int64_t bytes : {1, 2, 4, 8}) {
      std::vector<std::byte> strided(static_cast<size_t>(there.span * bytes)),
          dense(static_cast<size_t>(count * bytes));
      for (std::byte& b : strided) b = static_cast<std::byte>(random());
      std::byte* const start = strided.data() + there.first * bytes;
      copy_from_strided(dense.data(), start, bytes, shape, there.strides);
      std::vector<std::byte> back(strided.size());
      copy_to_strided(back.data() + there.first * bytes, dense.data(), bytes, shape, there.strides);
      for (int64_t i = 0; i < count; ++i) {
        int64_t rest = i, at = 0;
        for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
          at += rest % shape[axis] * there.strides[axis];
        const std::byte* const element = start + at * bytes;
        ASSERT_TRUE(std::equal(element, element + bytes, dense.data() + i * bytes))
            << round << " " << i;
        ASSERT_TRUE(std::equal(element, element + bytes, back.data() + (element - strided.data())))
            << round << " " << i;
      }
    }
  }
}

TEST(StridedCopies, OfOneElementEverywhere) {
  const std::vector<int64_t> shape = {3, 40}, strides = {0, 0};
  const float x = 7;
  std::vector<float> dense(120);
  copy_from_strided(reinterpret_cast<std::byte*>(dense.data()), &x, 4, shape, strides);
  EXPECT_EQ(dense, std::vector<float>(120, 7));
}

}  // namespace
}  // namespace weft
