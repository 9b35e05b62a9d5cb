// What blocks keep from nest to nest: which loads and stores are of one box, and what is given up.

#include "tile/rewrite/reuse_boxes.h"

#include <gmock/gmock.h>

#include "tests/tile/program_cases.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/check/evaluate.h"
#include "tile/check/verify_tile_program.h"
#include "tile/rewrite/prune_symbols.h"
#include "tile/text/tile_text.h"

namespace weft::tile_test {
namespace {

using testing::HasSubstr;
using testing::Not;

TileProgram parsed(const std::string& text) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? *program : TileProgram{};
}

struct Reused {
  TileProgram program;
  std::string text;
  BoxReuse reuse;
  int64_t requested = 0;  ///< bytes, as predicted and as the evaluator counts
};

/// The program with what its blocks keep in so many bytes; it verifies and computes the same.
Reused reused(const std::string& text, int64_t room = 1 << 16) {
  Reused out;
  const TileProgram before = parsed(text);
  out.program = before;
  const auto changed = reuse_boxes(out.program, room);
  EXPECT_TRUE(changed.ok()) << changed.error().message;
  out.text = print(out.program);
  const Status status = verify_tile_program(out.program);
  EXPECT_TRUE(status.ok()) << status.error().message << out.text;
  const auto scopes = derive_scopes(out.program);
  EXPECT_TRUE(scopes.ok()) << scopes.error().message << out.text;
  if (!scopes.ok()) return out;
  out.reuse = reuse_of(out.program, *scopes);
  EXPECT_EQ(*changed, out.reuse.hits > 0) << out.text;
  const auto inputs = program_inputs(before);
  const auto expected = evaluate_tile_program(before, inputs),
             actual = evaluate_tile_program(parsed(out.text), inputs);
  EXPECT_TRUE(expected.ok() && actual.ok())
      << (actual.ok() ? expected : actual).error().message << out.text;
  if (!expected.ok() || !actual.ok()) return out;
  for (const auto& [name, tensor] : expected->outputs) {
    const HostTensor& same = actual->outputs.at(name);
    for (int64_t i = 0; i < tensor.size(); ++i)
      EXPECT_EQ(tensor.at_double(i), same.at_double(i)) << name << ' ' << i << out.text;
  }
  const auto traffic = predict_traffic(out.program, *scopes);
  EXPECT_TRUE(traffic.ok());
  if (traffic.ok()) EXPECT_EQ(traffic->requested_read, actual->requested_read) << out.text;
  out.requested = actual->requested_read;
  return out;
}

constexpr const char* kSum = R"(
kernel k(x: f32[11,45], out y: f32[11,45]) blocks 3 warps 4 gpu {
  j: 45;
  jj: 45;
  k: 11;
  workspace s: f32[11];
  view sv: f32[11] of s;
  grid i in 11 step 4 { s[i] = sum[j] x[i,j] @[i=WARP_4, j=REG_2-LANE_32]; }
  grid m in 11 step 4 {
    t = max[k] sv[k];
    y[m,jj] = x[m,jj] - t @[m=WARP_4, jj=REG_2-LANE_32];
  }
})";

TEST(ReuseBoxes, KeepsWhatTheSameBlockLoadsAgain) {
  const Reused kept = reused(kSum);
  EXPECT_EQ(kept.reuse.hits, 1);
  EXPECT_EQ(kept.reuse.evictions, 0);
  EXPECT_EQ(kept.reuse.saved_bytes, 11 * 45 * 4);
  EXPECT_THAT(kept.text, HasSubstr("x_kept[i,j] = x_v[i,j]"));
  EXPECT_THAT(kept.text, HasSubstr("y[m,jj] = x_kept[m,jj] - t"));
  // The map once, the sums by each warp of each block.
  EXPECT_EQ(kept.requested, (11 * 45 + 3 * 4 * 11) * 4);
}

/// Boxes of other sizes are on other blocks, whatever the names.
TEST(ReuseBoxes, LeavesBoxesOfOtherBlocks) {
  for (const char* loop : {"grid m in 11 step 3", "grid m in 11 step 2"}) {
    std::string text = kSum;
    text.replace(text.find("grid m in 11 step 4"), 19, loop);
    const Reused kept = reused(text);
    EXPECT_EQ(kept.reuse.hits, 0) << loop;
    EXPECT_THAT(kept.text, Not(HasSubstr("_kept"))) << loop;
  }
}

/// More iterations than blocks: which block runs one again is not the block that ran it.
TEST(ReuseBoxes, LeavesNestsOfSeveralIterationsABlock) {
  std::string text = kSum;
  text.replace(text.find("blocks 3"), 8, "blocks 2");
  EXPECT_EQ(reused(text).reuse.hits, 0);
}

/// What a loop makes anew in each iteration is no box of the nest, also where it has one.
TEST(ReuseBoxes, LeavesLoadsThatALoopRepeats) {
  for (const char* loop : {"seq a in 1", "seq a in 2"}) {
    std::string text = kSum;
    const std::string store = "s[i] = sum[j] x[i,j] @[i=WARP_4, j=REG_2-LANE_32];";
    text.replace(text.find(store), store.size(),
                 std::string(loop) + R"( carry c[i]: f32 = 0.0 @[i=WARP_4] {
      q[i] = sum[j] x[i,j] @[i=WARP_4, j=REG_2-LANE_32];
      c'[i] = c[i] + q[i];
    }
    s[i] = c[i];)");
    EXPECT_EQ(reused(text).reuse.hits, 0) << loop;
  }
}

/// A value over more than the load's own box is not what is kept.
TEST(ReuseBoxes, KeepsTheBoxOfTheLoad) {
  const Reused kept = reused(R"(
kernel k(x: f32[11], out h: f32[11,45], out y: f32[11,45]) blocks 1 warps 4 gpu {
  j: 45;
  jj: 45;
  view hv: f32[11,45] of h;
  grid i in 11 step 16 {
    w[i,j] = x[i] @[i=WARP_4-REG_4, j=REG_2-LANE_32];
    h[i,j] = w[i,j] @[i=WARP_4-REG_4, j=REG_2-LANE_32];
  }
  grid m in 11 step 16 { y[m,jj] = hv[10-m,jj] + x[m] @[m=WARP_4-REG_4, jj=REG_2-LANE_32]; }
})");
  EXPECT_EQ(kept.reuse.hits, 1);
}

constexpr const char* kHanded = R"(
kernel k(x: f32[11,45], out h: f32[11,45], out y: f32[11,45]) blocks 3 warps 4 gpu {
  j: 45;
  jj: 45;
  view hv: f32[11,45] of h;
  grid i in 11 step 4 { h[i,j] = exp(x[i,j]) @[i=WARP_4, j=REG_2-LANE_32]; }
  grid m in 11 step 4 { y[m,jj] = hv[m,jj] + x[m,jj] @[m=WARP_4, jj=REG_2-LANE_32]; }
})";

/// What a block hands itself passes no barrier of the grid, and is not stored where nothing else
/// reads it.
TEST(ReuseBoxes, HandsOnWhatABlockStored) {
  Reused kept = reused(kHanded);
  EXPECT_EQ(kept.reuse.hits, 2);
  EXPECT_EQ(kept.requested, 11 * 45 * 4);
  const auto is_grid = [](const BarrierPoint& b) { return b.scope == Scope::kGrid; };
  EXPECT_EQ(std::ranges::count_if(derive_scopes(kept.program)->barriers, is_grid), 0);
  EXPECT_THAT(drop_outputs(kept.program, {1}), testing::ElementsAre(1U));
  const std::string text = print(kept.program);
  EXPECT_THAT(text, Not(HasSubstr("out h"))) << text;
  EXPECT_TRUE(verify_tile_program(kept.program).ok()) << text;
  const auto made = evaluate_tile_program(kept.program, program_inputs(parsed(kHanded)));
  ASSERT_TRUE(made.ok()) << made.error().message << text;
  EXPECT_EQ(made->requested_written, 11 * 45 * 4);
  // One that a view still reads stays.
  TileProgram as_it_was = parsed(kHanded);
  EXPECT_TRUE(drop_outputs(as_it_was, {1}).empty());
}

/// Three boxes of 4 x 45 floats, of which two fit: the one that is needed last is read again. Each
/// nest reads rows of other blocks, too.
TEST(ReuseBoxes, GivesUpWhatIsNeededLast) {
  constexpr const char* kThree = R"(
kernel k(a: f32[11,45], b: f32[11,45], c: f32[11,45], out y: f32[11,45], out z: f32[11,45],
         out u: f32[11,45], out v: f32[11,45]) blocks 3 warps 4 gpu {
  j: 45;
  view yv: f32[11,45] of y;
  view zv: f32[11,45] of z;
  view uv: f32[11,45] of u;
  grid i in 11 step 4 { y[i,j] = a[i,j] + b[i,j] + c[i,j] @[i=WARP_4, j=REG_2-LANE_32]; }
  grid l in 11 step 4 { z[l,j] = a[l,j] * yv[10-l,j] @[l=WARP_4, j=REG_2-LANE_32]; }
  grid m in 11 step 4 { u[m,j] = c[m,j] * zv[10-m,j] @[m=WARP_4, j=REG_2-LANE_32]; }
  grid n in 11 step 4 { v[n,j] = b[n,j]*a[n,j] + uv[10-n,j] @[n=WARP_4, j=REG_2-LANE_32]; }
})";
  constexpr int64_t kBox = 12 * 64;  // 720 bytes, whole lines
  const Reused all = reused(kThree, 3 * kBox);
  EXPECT_EQ(all.reuse.hits, 4);
  EXPECT_EQ(all.reuse.evictions, 0);
  const Reused two = reused(kThree, 2 * kBox);
  EXPECT_EQ(two.reuse.hits, 3) << two.text;
  EXPECT_EQ(two.reuse.evictions, 1) << two.text;
  EXPECT_THAT(two.text, HasSubstr("v[n,j] = b[n,j]*a_kept[n,j] + uv"));
  EXPECT_EQ(two.requested, all.requested + 11 * 45 * 4);
  const Reused none = reused(kThree, 100);
  EXPECT_EQ(none.reuse.hits, 0);
  EXPECT_EQ(none.reuse.evictions, 4);
}

}  // namespace
}  // namespace weft::tile_test
