#include "import/onnx/suppress_boxes.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

namespace weft::onnx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Every box beside every one that stays.
std::vector<int64_t> suppress_plainly(const std::vector<Box>& boxes, float threshold,
                                      int64_t most) {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < boxes.size(); ++i) {
    bool stays = static_cast<int64_t>(kept.size()) < most;
    for (const int64_t k : kept)
      stays = stays && !(overlap(boxes[i], boxes[static_cast<size_t>(k)]) > threshold);
    if (stays) kept.push_back(static_cast<int64_t>(i));
  }
  return kept;
}

TEST(SuppressBoxes, KeepsWhatOverlapsLess) {
  const std::vector<Box> boxes = {{0, 0, 2, 2}, {0, 1, 2, 3}, {0, 0, 2, 2.5F}, {5, 5, 6, 6}};
  EXPECT_THAT(suppress(boxes, 0.5F, 10), ElementsAre(0, 1, 3));
  EXPECT_THAT(suppress(boxes, 0.3F, 10), ElementsAre(0, 3));
  EXPECT_THAT(suppress(boxes, 0.5F, 1), ElementsAre(0));
  EXPECT_THAT(suppress(boxes, -1, 10), ElementsAre(0));
  EXPECT_THAT(suppress(boxes, 0.5F, 0), IsEmpty());
  EXPECT_THAT(suppress({}, 0.5F, 10), IsEmpty());
}

TEST(SuppressBoxes, IsAsPlainComparisonsForBoxesOfAnyKind) {
  std::mt19937 random(11);
  const auto uniform = [&](float from, float to) {
    return std::uniform_real_distribution<float>(from, to)(random);
  };
  size_t left_out = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Box> boxes;
    const int kind = round % 6;
    const int count = 1 + static_cast<int>(random() % 120);
    for (int i = 0; i < count; ++i) {
      // Apart by classes; of one place; without a width; one as wide as all; not finite.
      const float offset = kind == 0 ? 1000.0F * static_cast<float>(random() % 5) : 0;
      const float y = uniform(0, 50), x = offset + uniform(0, 50);
      const float width = kind == 2 ? 0 : uniform(0, 40);
      boxes.push_back({y, x, y + uniform(0, 40), x + width});
      if (kind == 3 && i == count / 2) boxes.back() = {-1e6F, -1e6F, 1e6F, 1e6F};
      if (kind == 4 && i % 9 == 4) boxes.back().x2 = INFINITY;
      if (kind == 5 && i % 9 == 4) boxes.back().x1 = NAN;
    }
    const float threshold = uniform(0, 0.8F);
    const int64_t most = random() % 3 == 0 ? 5 : 1000;
    const std::vector<int64_t> kept = suppress(boxes, threshold, most);
    ASSERT_EQ(kept, suppress_plainly(boxes, threshold, most)) << round;
    left_out += boxes.size() - kept.size();
  }
  EXPECT_GT(left_out, 1000U);
}

}  // namespace
}  // namespace weft::onnx
