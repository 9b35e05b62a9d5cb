// A factor that is computed of constants waits in scratch for the rows that multiply it, where it
// is the same for all of them.

#include "schedule/cpu/choose_panel.h"
#include "tests/schedule/expressed.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

TensorProgram sum_of(const std::string& factor) {
  auto program = parse_tensor_program(
      "program {\n  input x: f32[16,2,3]\n  constant v: f32[4,2,3] = #1\n"
      "  y: f32[2,16,4] = contraction sum[3,2]:f32 " +
          factor + " * x[d1, r1, r0]\n  output y as y\n}",
      [](std::string_view, const TensorType& type) -> Result<HostTensor> {
        HostTensor value(type.dtype, type.shape);
        for (int64_t i = 0; i < value.size(); ++i) value.set_double(i, static_cast<double>(i % 5));
        return value;
      });
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(*program);
}

PanelChoice choice_of(const TensorProgram& program) {
  const Target target = *find_target("x86-64-v2");
  const auto space = GroupSpace::of(program, whole_group(program), target);
  EXPECT_TRUE(space.ok()) << space.error().message;
  return choose_panel(*space, target);
}

TEST(StagedFactor, IsTheSameForAllRowsAndPlaces) {
  const TensorProgram scaled = sum_of("(v[d2, r1, r0] + 1.0) * 2.0");
  EXPECT_EQ(choice_of(scaled).staged_factor, 0);
  // The border of an image of one pixel, whose place no read names: 0 of all that lies behind it.
  const TensorProgram bounded = sum_of("(i64(d0) < i64(1) ? v[d2, r1, r0] : 0.0)");
  EXPECT_EQ(choice_of(bounded).staged_factor, -1);
  const auto kernel = schedule_leaf(bounded, whole_group(bounded), *find_target("x86-64-v2"), "k");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_NE(print(kernel->program).find("a0 < 1 ?"), std::string::npos) << print(kernel->program);
}

/// Whoever asks for it is refused.
TEST(StagedFactor, StaysForPanel) {
  const TensorProgram program = sum_of("(i64(d0) < i64(1) ? v[d2, r1, r0] : 0.0)");
  const Target target = *find_target("x86-64-v2");
  const auto space = GroupSpace::of(program, whole_group(program), target);
  ASSERT_TRUE(space.ok());
  const ScalarRef& sum = program.exprs[0].body;
  EXPECT_FALSE(stays_for_panel(*space, choice_of(program), sum->operands[0]));
  EXPECT_FALSE(stays_for_panel(*space, choice_of(program), sum->operands[1]));  // rows of an input
}

}  // namespace
}  // namespace weft
