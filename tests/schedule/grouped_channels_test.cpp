#include "expr/layout.h"
#include "schedule/stages/build_block.h"
#include "schedule/stages/partitions.h"
#include "tests/schedule/expressed.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

/// A convolution of two groups of channels, results channels-last.
TensorProgram groups_of(int width) {
  const std::string w = std::to_string(width), c = std::to_string(2 * width);
  TensorProgram program = expressed(
      "(x: f32[1," + c + ",9,9], w: f32[" + c + "," + w + ",3,3]) {\n  y = convolution x, w, " +
      "strides={1,1}, low={1,1}, high={1,1}, lhs_dilations={1,1}, rhs_dilations={1,1}, groups=2 : "
      "f32[1," +
      c + ",9,9]\n} -> (y)");
  for (Tensor& t : program.tensors) {
    if (t.name == "w") t.kind = Tensor::Kind::kConstant;
    if (t.name == "x" || t.name == "y") t.layout = permuted_layout(t.type.shape, {0, 2, 3, 1});
  }
  return program;
}

/// Its program as a kernel.
std::string convolution_of_groups_of(int width) {
  const TensorProgram program = groups_of(width);
  const auto kernel = schedule_leaf(program, whole_group(program), *find_target("x86-64-v4"), "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return print(kernel->program);
}

/// Its program as the stage of blocks that make so many channels each.
std::string stage_of_groups_of(int width, int channels) {
  const TensorProgram program = groups_of(width);
  const Target target = *find_target("x86-64-v4");
  const BlockSpace space(program, whole_group(program), target);
  const BlockPartition blocks = partition_along(space, {{.axis = 3, .step = channels}});
  const auto demand = demand_boxes(space.program(), space.group(), blocks);
  EXPECT_TRUE(demand.ok()) << demand.error().message;
  const auto stages = form_stages(space, *demand, target);
  EXPECT_TRUE(stages.ok()) << stages.error().message;
  const auto kernel = build_block(space, blocks, *demand, *stages, nullptr, target, "k");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return print(kernel->program);
}

/// The lanes of the vectors in which a program sums up.
std::string vectors_of(const std::string& text) {
  const size_t at = text.find("VEC_");
  return text.substr(at, text.find_first_of(",]", at) - at);
}
std::string vectors_of_groups_of(int width) { return vectors_of(convolution_of_groups_of(width)); }
std::string grid_of_groups_of(int width) {
  const std::string text = convolution_of_groups_of(width);
  const size_t at = text.find("grid ");
  return text.substr(at, text.find('\n', at) - at);
}

/// Groups of 2, 4, 8 and 16 channels share an axis, of which a vector holds several, or one: then
/// all its lanes read the same channel. Others are a batch of products, whose last vector is filled
/// in part.
TEST(GroupedChannels, AVectorHoldsWholeGroups) {
  EXPECT_EQ(vectors_of_groups_of(32), "VEC_16");
  EXPECT_EQ(vectors_of_groups_of(24), "VEC_16");
  EXPECT_EQ(vectors_of_groups_of(16), "VEC_16");
  EXPECT_EQ(vectors_of_groups_of(12), "VEC_16");
  EXPECT_EQ(vectors_of_groups_of(9), "VEC_16");
  EXPECT_EQ(vectors_of_groups_of(8), "VEC_16");
  EXPECT_EQ(vectors_of_groups_of(6), "VEC_8");
  EXPECT_EQ(vectors_of_groups_of(4), "VEC_8");
  EXPECT_EQ(vectors_of_groups_of(3), "VEC_4");
  EXPECT_EQ(grid_of_groups_of(16).find("a4"), std::string::npos);
  EXPECT_NE(grid_of_groups_of(48).find("in 48 step 48"), std::string::npos)
      << grid_of_groups_of(48);
}

/// A block's channels may begin in the middle of a group, and then hold parts of two.
TEST(GroupedChannels, VectorsOfBlocksStayWithinAGroup) {
  EXPECT_EQ(vectors_of(stage_of_groups_of(24, 16)), "VEC_8");
  EXPECT_EQ(vectors_of(stage_of_groups_of(40, 16)), "VEC_8");
  EXPECT_EQ(vectors_of(stage_of_groups_of(32, 16)), "VEC_16");
}

/// Where lanes take different channels of a load, these are written out. Where all take the same
/// one, what is written out is loaded for all taps of a window before it is multiplied, and
/// spilled.
TEST(GroupedChannels, AreWrittenOutWhereLanesDiffer) {
  EXPECT_NE(convolution_of_groups_of(16).find("in 16, a5 in 3 unroll 4 carry"), std::string::npos)
      << convolution_of_groups_of(16);
  for (const int width : {2, 4, 8}) {
    const std::string text = convolution_of_groups_of(width);
    const std::string channels = "in " + std::to_string(width) + " unroll, a5 in 3 unroll carry";
    EXPECT_NE(text.find(channels), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace weft
