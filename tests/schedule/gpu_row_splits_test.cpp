#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/schedule.h"
#include "tests/graph_texts.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// How a softmax is built, of which no cluster has more blocks than the target's.
std::string built(int64_t rows, int64_t columns, const Target& target) {
  const TensorProgram program = expressed(softmax(rows, columns));
  const auto kernel = schedule_group(program, whole_group(program), target, "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  if (!kernel.ok()) return "";
  const auto& choice = std::get<RowsChoice>(kernel->composition.choice);
  EXPECT_LE(choice.cluster ? choice.parts : choice.together, std::max(target.cluster_blocks, 1));
  return kernel->schedule_template;
}

/// What is predicted to take the least is chosen: one block where rows fill the device, a cluster
/// where they do not, more blocks and the dearer barrier where one cluster would leave most of it
/// idle. Devices without clusters never get them.
TEST(GpuRowSplits, AreChosenByPrediction) {
  const Target h100 = *find_target("h100-sxm");
  EXPECT_EQ(built(4096, 1024, h100), "rows in registers");
  EXPECT_EQ(built(33, 30011, h100), "rows in registers over a cluster");
  EXPECT_EQ(built(500, 200003, h100), "rows in registers over a cluster");
  EXPECT_EQ(built(1, 1000003, h100), "rows in registers over blocks");
  const Target a100 = *find_target("a100-40gb");
  EXPECT_EQ(a100.cluster_blocks, 0);
  for (const auto& [rows, columns] :
       {std::pair{33, 30011}, {500, 200003}, {200, 20011}, {7, 65537}}) {
    EXPECT_THAT(built(rows, columns, a100), Not(HasSubstr("cluster")));
  }
}

}  // namespace
}  // namespace weft
