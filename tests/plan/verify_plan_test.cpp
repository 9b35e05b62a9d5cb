#include <gtest/gtest.h>

#include "tests/graph_texts.h"
#include "tests/plan/planned.h"

namespace weft {
namespace {

TEST(VerifyPlan, LooksAtTheTilePrograms) {
  const TensorProgram p = expressed(softmax(64, 100));
  FusionPlan plan = plan_of(p, two_cores());
  TileProgram& tiles = plan.kernels.at(0).schedule.program;
  tiles.body = cloned(tiles.body);
  std::vector<TileNode>& grid = tiles.body.back().loop->body;
  grid.pop_back();  // the sweep that stores y
  const Status status = verify_plan(p, plan);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("6400 of 6400 elements of y are not written"),
            std::string::npos)
      << status.error().message;
}

TEST(VerifyPlan, WantsCopiesNamedAndTensorsStoredOnce) {
  const TensorProgram p = expressed(softmax(64, 100));
  FusionPlan plan = plan_of(p, two_cores(), "xla");
  ASSERT_EQ(plan.kernels.size(), 3u);
  const auto message = [&] {
    const Status status = verify_plan(p, plan);
    return status.ok() ? std::string() : status.error().message;
  };
  const FusionPlan sound = plan;
  plan.kernels[2].copies.clear();
  EXPECT_NE(message().find("does not say what it makes again"), std::string::npos) << message();
  plan = sound;
  plan.kernels[2].group.outputs.push_back(plan.kernels[1].group.outputs.at(0));
  EXPECT_NE(message().find("s is stored by two kernels"), std::string::npos) << message();
}

}  // namespace
}  // namespace weft
