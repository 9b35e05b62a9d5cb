// The steps of a chain, down to one term each.

#include <gmock/gmock.h>

#include "schedule/stages/compose_chain.h"
#include "tests/schedule/expressed.h"
#include "tile/check/verify_tile_program.h"

namespace weft {
namespace {

/// Two terms are carried. Half of them is a step that the search weighs, too: a sum along no axis.
/// That is the quicker one and does not verify, so that the other is taken.
TEST(ChainSteps, AreWeighedDownToOneTermAndTakenWhereTheyVerify) {
  const TensorProgram program = expressed(R"((x: f32[2,17,2], w: f32[17,5], z: f32[2,5,2]) {
    p = dot_general x, w, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f32[2,2,5]
    e = exp p : f32[2,2,5]
    y = dot_general e, z, lhs_contract={0}, rhs_contract={0}, lhs_batch={1,2}, rhs_batch={2,1} : f32[2,5]
  } -> (y))");
  const Target target = *find_target("x86-64-v3");
  std::vector<Considered> considered;
  const auto chain =
      compose_chain(BlockSpace(program, whole_group(program), target), target, "k", &considered);
  ASSERT_TRUE(chain.ok()) << chain.error().message;
  EXPECT_EQ(chain->composition.carried.step, 2);
  EXPECT_TRUE(verify_tile_program(chain->program, chain->scopes).ok());
  ASSERT_EQ(considered.size(), 2u);
  EXPECT_TRUE(considered[0].chosen);
  EXPECT_TRUE(considered[1].template_name.ends_with("in steps of 1)"));
  EXPECT_THAT(considered[1].why_not, ::testing::HasSubstr("whose iterations overwrite it"));
}

}  // namespace
}  // namespace weft
