// Blocks that keep too much let readers make values again (FusionStitching 2018 §5.1.2).

#include "schedule/stages/shrink_block.h"

#include <gmock/gmock.h>

#include <regex>

#include "schedule/stages/compose_block.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Scores of long rows, of which a costly value is summed and multiplied.
const char* const kLongRows = R"((q: f32[2,4,16], k: f32[2,512,16], v: f32[2,512,16]) {
  a = dot_general q, k, lhs_contract={2}, rhs_contract={2}, lhs_batch={0}, rhs_batch={0} : f32[2,4,512]
  m = reduce a, axes={2}, combiner=max : f32[2,4]
  mb = broadcast m, dims={0,1} : f32[2,4,512]
  d = sub a, mb : f32[2,4,512]
  e = exp d : f32[2,4,512]
  s = reduce e, axes={2}, combiner=sum : f32[2,4]
  sb = broadcast s, dims={0,1} : f32[2,4,512]
  p = div e, sb : f32[2,4,512]
  y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[2,4,16]
} -> (y))";

BlockPartition partition(const std::string& text) {
  TextCursor cursor(text);
  auto out = parse_partition(cursor);
  EXPECT_TRUE(out.ok()) << text;
  return out.ok() ? *out : BlockPartition{};
}

class ShrinkBlock : public ::testing::Test {
 protected:
  /// What readers make again of a graph's values where so many bytes are to go.
  std::vector<int> again(const std::string& graph, const std::string& cut, double bytes) {
    const TensorProgram program = expressed(graph);
    const BlockSpace space(program, whole_group(program), cpu_);
    const auto demand = demand_boxes(space.program(), space.group(), partition(cut));
    EXPECT_TRUE(demand.ok());
    const auto stages = form_stages(space, *demand, cpu_);
    EXPECT_TRUE(stages.ok());
    const auto block = shrink_block(space, partition(cut), *demand, *stages, {}, bytes);
    return block ? block->again : std::vector<int>{-1};
  }
  /// With so much memory for a block, as bytes.
  Target cpu_with(int64_t bytes) const {
    Target out = cpu_;
    out.l2_bytes = 2 * bytes;
    return out;
  }
  Target gpu_with(int64_t bytes) const {
    Target out = gpu_;
    out.shared_bytes_per_block = bytes;
    return out;
  }
  /// The composition's text, or why there is none; built again from that text.
  std::string composed(const std::string& graph, const Target& target) {
    const TensorProgram program = expressed(graph);
    const BlockSpace space(program, whole_group(program), target);
    auto kernel = compose_block(space, target, "k", nullptr);
    if (!kernel.ok()) return kernel.error().message;
    const auto again = build_as_composed(space, kernel->composition, target, "k");
    EXPECT_TRUE(again.ok()) << again.error().message;
    if (again.ok()) {
      EXPECT_EQ(print(again->composition), print(kernel->composition));
      EXPECT_EQ(again->estimate.microseconds, kernel->estimate.microseconds);
    }
    return print(kernel->composition);
  }

  const Target cpu_ = *find_target("x86-64-v3"), gpu_ = *find_target("a100-40gb");
};

/// v2 differences are cheap, v3 exponentials and v5 quotients costly. Quotients alone are kept,
/// until they are made again: then exponentials are, of which that is true, too, then differences;
/// scores and the rows' two numbers are kept anyway.
TEST_F(ShrinkBlock, GoesOnAsLongAsNothingIsSaved) {
  EXPECT_THAT(again(kLongRows, "v6: d0 1, d1 1", 1), ElementsAre(2, 3, 5));
  EXPECT_THAT(again(kLongRows, "v6: d0 1, d1 1", 2000), ElementsAre(2, 3, 5));
  EXPECT_THAT(again(kLongRows, "v6: d0 1, d1 1", 2048), ElementsAre(-1))
      << "what is left to give up";
}

/// Two rows' values that the next rows read: c cheap, e costly and read twice, p costly and
/// multiplied. v0 is the first to be reduced.
const char* const kClasses = R"((x: f32[64,32,16], w: f32[64,16,8]) {
  c = add x, x : f32[64,32,16]
  e = exp x : f32[64,32,16]
  p = tanh x : f32[64,32,16]
  m = reduce c, axes={1}, combiner=max : f32[64,16]
  n = reduce c, axes={2}, combiner=max : f32[64,32]
  f = reduce e, axes={1}, combiner=max : f32[64,16]
  g = reduce e, axes={2}, combiner=max : f32[64,32]
  h = reduce p, axes={1}, combiner=max : f32[64,16]
  y = dot_general p, w, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[64,32,8]
} -> (m, n, f, g, h, y))";

TEST_F(ShrinkBlock, GivesUpInThePapersOrder) {
  const std::string cut = "v8, v3, v4, v5, v6, v7: d0|d0|d0|d0|d0|d0 1";
  const double one = 32 * 16 * 4;
  EXPECT_THAT(again(kClasses, cut, 1), ElementsAre(0));
  EXPECT_THAT(again(kClasses, cut, one + 1), ElementsAre(0, 1));
  EXPECT_THAT(again(kClasses, cut, 2 * one + 1), ElementsAre(0, 1, 2));
}

/// What holds no block whole, at any step, holds one that keeps less. A GPU's warps hand on what
/// they hold, so that its values are larger.
TEST_F(ShrinkBlock, MakesRoomWhereNoStepDoes) {
  EXPECT_THAT(composed(kLongRows, cpu_with(4000)), HasSubstr(" B of scratch"));
  const std::string text = composed(kLongRows, cpu_with(6000));
  EXPECT_THAT(text, HasSubstr("block(v6:"));
  EXPECT_THAT(text, HasSubstr(" v4"));
  for (const char* member : {" v2", " v3", " v5"}) EXPECT_THAT(text, Not(HasSubstr(member)));
  EXPECT_THAT(composed(kLongRows, cpu_with(8000)), HasSubstr(" v1 v2 v3 v4 v5;"));
  const std::string larger = std::regex_replace(
      std::regex_replace(kClasses, std::regex("32,16"), "160,128"), std::regex("16,8"), "128,8");
  const std::string all = std::regex_replace(
      std::regex_replace(std::regex_replace(larger, std::regex("64,16]"), "64,128]"),
                         std::regex("64,32]"), "64,160]"),
      std::regex("64,32,8"), "64,160,8");
  const std::string on_gpu = composed(all, gpu_);
  EXPECT_THAT(on_gpu, HasSubstr("block(v8"));
  EXPECT_THAT(on_gpu, Not(HasSubstr(") v0 "))) << "it is cheap";
  EXPECT_THAT(on_gpu, HasSubstr(" v2")) << "it is costly, and multiplied";
}

/// What no stage makes has to be what readers can make.
TEST_F(ShrinkBlock, RefusesStagesWithoutAReduction) {
  const TensorProgram program = expressed(kLongRows);
  const Target target = cpu_with(12000);
  const BlockSpace space(program, whole_group(program), target);
  auto kernel = compose_block(space, target, "k", nullptr);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  Composition composition = kernel->composition;
  for (std::vector<int>& stage : composition.stages) std::erase(stage, 4);
  const auto built = build_as_composed(space, composition, target, "k");
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(built.error().message, HasSubstr("no stage makes v4"));
}

}  // namespace
}  // namespace weft
