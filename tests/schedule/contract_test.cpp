#include <gtest/gtest.h>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tests/graph_texts.h"
#include "tests/schedule/expressed.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

/// The tile program of everything in a graph as one kernel, printed.
std::string scheduled(const std::string& text) {
  const TensorProgram program = expressed(text);
  const Group group = whole_group(program);
  Target target;
  target.vector_bytes = 64;
  target.vector_registers = 32;
  target.l2_bytes = 1 << 20;
  target.bandwidth = {{1 << 20, 100}};
  auto kernel = schedule_group(program, group, target, "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return kernel.ok() ? print(kernel->program) : "";
}

TEST(Contract, PacksAPartOfATensorThatTheRowsReadToo) {
  // Both factors lie in one tensor; only the one along the vectors goes through the panel.
  const std::string text = scheduled(R"(
(x: f32[1,96,256]) {
  a = slice x, start={0,0,0}, step={1,1,1} : f32[1,96,128]
  b = slice x, start={0,0,128}, step={1,1,1} : f32[1,96,128]
  c = reshape a : f32[96,2,64]
  d = reshape b : f32[96,2,64]
  y = dot_general c, d, lhs_batch={1}, rhs_batch={1}, lhs_contract={2}, rhs_contract={2} : f32[2,96,96]
} -> (y))");
  EXPECT_NE(text.find("] = x[0,a2,a0*64+a3+128] at scratch"), std::string::npos) << text;
  EXPECT_NE(text.find("*panel["), std::string::npos) << text;
}

TEST(Contract, PacksAPanelForOneTileOfRows) {
  const std::string text = scheduled(R"(
(x: f32[6,200], w: f32[1000,200]) {
  y = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={1} : f32[6,1000]
} -> (y))");
  EXPECT_NE(text.find("panel["), std::string::npos) << text;
}

TEST(Contract, NarrowsAPanelThatADeepReductionWouldOverflow) {
  const std::string text = scheduled(R"(
(x: f32[60,4096], w: f32[1000,4096]) {
  y = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={1} : f32[60,1000]
} -> (y))");
  EXPECT_NE(text.find("step 32 {"), std::string::npos) << text;
  EXPECT_NE(text.find("panel["), std::string::npos) << text;
}

TEST(Contract, DividesTheRowsWhereThePanelsStayInCache) {
  const std::string tall = scheduled(product(6000, 96, 64, "f32"));
  EXPECT_NE(tall.find("grid a0 in 6000 step"), std::string::npos) << tall;
  const std::string wide = scheduled(product(60, 9600, 64, "f32"));
  EXPECT_NE(wide.find("grid a1 in 9600 step"), std::string::npos) << wide;
}

TEST(Contract, RowsRunAlongAnAxisThatThePanelDoesNotHave) {
  // Both axes of w are panels for those of x, whichever is the longer.
  const std::string text = scheduled(R"(
(x: f32[5,32], w: f32[9,9,32]) {
  y = dot_general x, w, lhs_batch={}, rhs_batch={}, lhs_contract={1}, rhs_contract={2} : f32[5,9,9]
} -> (y))");
  EXPECT_NE(text.find("a0 in 5 step 5"), std::string::npos) << text;
}

TEST(Contract, FewEnoughAccumulatorsForTwoStepsInFlight) {
  const std::string text = scheduled(product(6000, 32, 64, "f32"));
  EXPECT_NE(text.find("step 12"), std::string::npos) << text;
}

}  // namespace
}  // namespace weft
