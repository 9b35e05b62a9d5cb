#include "assemble/share_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using ::testing::ElementsAre;

std::vector<bool> serial(std::vector<StepAccess> steps, const std::vector<StepWork>& works,
                         int64_t bytes) {
  std::vector<ProgramBuffer> buffers(4);
  for (ProgramBuffer& b : buffers) b.bytes = bytes;
  share_steps(buffers, works, steps);
  std::vector<bool> out;
  for (const StepAccess& step : steps) out.push_back(step.serial);
  return out;
}

TEST(ShareSteps, AreMadeWhereWhatTheyReadIs) {
  // A shared step makes 0. A small one reads it and makes 1, another reads 1.
  const std::vector<StepAccess> steps = {{false, {}, {0}}, {true, {0}, {1}}, {true, {1}, {2}}};
  const StepWork large{true, 50, 2, 1e6}, small{true, 1, 2, 1e6}, single{false, 1, 2, 1e6};
  EXPECT_THAT(serial(steps, {large, small, small}, 100'000), ElementsAre(false, false, false));
  EXPECT_THAT(serial(steps, {large, small, small}, 1'000), ElementsAre(false, true, true));
  // What one thread made lies in its cache.
  EXPECT_THAT(serial(steps, {large, single, small}, 100'000), ElementsAre(false, true, true));
  // No more is read than the step reads.
  const StepWork row{true, 1, 2, 1'000};
  EXPECT_THAT(serial(steps, {large, row, small}, 100'000), ElementsAre(false, true, true));
}

}  // namespace
}  // namespace weft
