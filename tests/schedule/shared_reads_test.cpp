#include "expr/tensor_program.h"
#include "schedule/cpu/choose_sweep.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

SweepChoice sweep_of(const std::string& shape, const std::string& body) {
  const auto program = parse_tensor_program("program {\n  input x: f32[12,16,64]\n  y: f32" +
                                            shape + " = " + body + "\n  output y as y\n}\n");
  EXPECT_TRUE(program.ok()) << program.error().message;
  const Target target = *find_target("x86-64-v4");
  const auto space = GroupSpace::of(*program, whole_group(*program), target);
  EXPECT_TRUE(space.ok()) << space.error().message;
  return choose_sweep(*space, target);
}

/// Four taps of a window of four elements: each element is loaded once for two of them.
TEST(SharedReads, ShortAxesThatShareThemAreWrittenOut) {
  const SweepChoice c =
      sweep_of("[5,4,16,64]", "x[d0 * 2 + d1, d2, d3] - x[d0 * 2 - d1 floordiv 2 + 2, d2, d3]");
  EXPECT_EQ(c.row_axis, 1);
  EXPECT_EQ(c.rows, 4);
  EXPECT_EQ(c.vectors, 2);
}

TEST(SharedReads, OthersAreNot) {
  // Every step has elements of its own, or three of four.
  EXPECT_EQ(sweep_of("[3,4,16,64]", "x[d0 * 4 + d1, d2, d3] * 2.0").row_axis, -1);
  EXPECT_EQ(sweep_of("[3,4,16,64]", "x[d0 * 2 + d1, d2, d3] - x[d0 * 2 + d1 + 2, d2, d3]").row_axis,
            -1);
  // A long axis would take too many registers.
  EXPECT_EQ(sweep_of("[2,8,16,64]", "x[d0 + d1, d2, d3] - x[d0 + d1 + 1, d2, d3]").row_axis, -1);
}

/// What data say of a vector's place is worked out once for all vectors of a tile.
TEST(SharedReads, VectorsShareThePlacesThatDataSay) {
  const auto vectors_of = [](const std::string& row) {
    const auto program = parse_tensor_program(
        "program {\n  input x: f32[12,64]\n  input at: i64[9,2]\n"
        "  y: f32[9,64] = sum[2]:f32 x[" +
        row +
        ", d1]\n"
        "  output y as y\n}\n");
    EXPECT_TRUE(program.ok()) << program.error().message;
    const Target target = *find_target("x86-64-v3");
    const auto space = GroupSpace::of(*program, whole_group(*program), target);
    EXPECT_TRUE(space.ok()) << space.error().message;
    return choose_sweep(*space, target).vectors;
  };
  EXPECT_EQ(vectors_of("d0 + r0"), 2);
  EXPECT_EQ(vectors_of("at[d0, r0]"), 8);
}

}  // namespace
}  // namespace weft
