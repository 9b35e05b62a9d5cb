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

}  // namespace
}  // namespace weft
