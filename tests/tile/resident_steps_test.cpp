// Steps of a recurrence: nests that the same blocks run become one, and what all steps read alike
// is loaded before the first.

#include <gmock/gmock.h>

#include "tests/tile/program_cases.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/check/evaluate.h"
#include "tile/check/verify_tile_program.h"
#include "tile/rewrite/make_resident.h"
#include "tile/rewrite/merge_nests.h"
#include "tile/rewrite/reuse_boxes.h"
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

/// Requested bytes of `after`, which verifies and computes what `before` does, bit by bit.
int64_t same_outputs(const TileProgram& before, const TileProgram& after) {
  const std::string text = print(after);
  const Status status = verify_tile_program(after);
  EXPECT_TRUE(status.ok()) << status.error().message << text;
  const auto scopes = derive_scopes(after);
  EXPECT_TRUE(scopes.ok()) << scopes.error().message << text;
  const auto inputs = program_inputs(before);
  const auto expected = evaluate_tile_program(before, inputs),
             actual = evaluate_tile_program(parsed(text), inputs);
  EXPECT_TRUE(expected.ok() && actual.ok())
      << (actual.ok() ? expected : actual).error().message << text;
  if (!expected.ok() || !actual.ok() || !scopes.ok()) return 0;
  for (const auto& [name, tensor] : expected->outputs) {
    const HostTensor& same = actual->outputs.at(name);
    for (int64_t i = 0; i < tensor.size(); ++i)
      EXPECT_EQ(tensor.at_double(i), same.at_double(i)) << name << ' ' << i << text;
  }
  const auto traffic = predict_traffic(after, *scopes);
  EXPECT_TRUE(traffic.ok());
  if (traffic.ok()) EXPECT_EQ(traffic->requested_read, actual->requested_read) << text;
  return actual->requested_read;
}

/// Two products a step, the second of which adds the first: 10 iterations on 12 blocks each.
constexpr const char* kSteps = R"(
kernel k(x: f32[5,40], U: f32[40,24], V: f32[40,24], h0: f32[24], out y: f32[5,40], out last: f32[24]) blocks 12 warps 4 gpu {
  j: 24;
  k: 24;
  workspace h: f32[2,24];
  workspace p: f32[40];
  view out first: f32[24] of h at 24;
  view end: f32[24] of h;
  view made: f32[40] of p;
  grid i in 24 step 12 { first[i] = h0[i]; }
  seq t in 5 {
    view x_t: f32[40] of x at t*40;
    view h_t: f32[24] of h at (t+1)%2*24;
    view h_u: f32[24] of h at (t+1)%2*24;
    view out n_t: f32[24] of h at t%2*24;
    view out y_t: f32[40] of y at t*40;
    view z_t: f32[40] of y at t*40;
    grid m in 40 step 4 {
      H[j] = h_t[j] at block @[j=LANE_32];
      g[m] = sum[j] U[m,j]*H[j] @[m=WARP_4, j=LANE_32];
      p[m] = g[m] @[m=WARP_4];
    }
    grid n in 40 step 4 {
      G[k] = h_u[k] at block @[k=LANE_32];
      c[n] = sum[k] V[n,k]*G[k] @[n=WARP_4, k=LANE_32];
      s[n] = made[n] + c[n]*x_t[n] @[n=WARP_4];
      y_t[n] = tanh(s[n]) @[n=WARP_4];
    }
    grid e in 24 step 24 { n_t[e] = z_t[e] + h_t[e]*0.5 @[e=LANE_32]; }
  }
  grid e in 24 step 12 { last[e] = end[e]; }
})";

TEST(MergeNests, MakesOneNestOfThoseThatTheSameBlocksRun) {
  const TileProgram before = parsed(kSteps);
  TileProgram after = before;
  ASSERT_TRUE(merge_nests(after));
  const std::string text = print(after);
  // Loads first, the product handed on, its workspace gone, the small nest apart.
  EXPECT_THAT(text, HasSubstr("      H[j] = h_t[j] at block @[j=LANE_32];\n"
                              "      G[k] = h_u[k] at block @[k=LANE_32];\n"));
  EXPECT_THAT(text, HasSubstr("s[m] = g[m] + c[m]*x_t[m]"));
  EXPECT_THAT(text, Not(HasSubstr("workspace p")));
  EXPECT_THAT(text, HasSubstr("grid e in 24 step 24"));
  const auto scopes = derive_scopes(after);
  ASSERT_TRUE(scopes.ok());
  int in_steps = 0;
  for (const BarrierPoint& barrier : scopes->barriers)
    in_steps += barrier.scope == Scope::kGrid && barrier.before.size() == 2 ? 1 : 0;
  EXPECT_EQ(in_steps, 2);
  same_outputs(before, after);
}

/// Blocks that are enough for both run them side by side.
TEST(MergeNests, LeavesNestsThatHaveBlocksOfTheirOwn) {
  std::string text = kSteps;
  text.replace(text.find("blocks 12"), 9, "blocks 20");
  TileProgram program = parsed(text);
  EXPECT_FALSE(merge_nests(program));
}

TEST(MergeNests, LeavesWhatReadsElementsOfOtherBlocks) {
  const auto merges = [](const std::string& from, const std::string& to) {
    std::string text = kSteps;
    text.replace(text.find(from), from.size(), to);
    TileProgram program = parsed(text);
    return merge_nests(program);
  };
  EXPECT_FALSE(merges("made[n] + c", "made[39-n] + c"));
  // Another loop over the blocks.
  EXPECT_FALSE(merges("grid n in 40 step 4", "grid n in 40 step 8"));
}

/// What a nest between two stores, the later one may not be moved in front of.
TEST(MergeNests, LeavesWhatWaitsForANestBetween) {
  std::string text = kSteps;
  const std::string at = "    grid n in 40";
  text.replace(text.find(at), at.size(),
               "    grid q in 40 step 40 { w[q] = made[q]*2; W[q] = w[q]; }\n" + at);
  text.replace(text.find("  workspace p"), 0, "  workspace W: f32[40];\n");
  text.replace(text.find("  view out first"), 0, "  view doubled: f32[40] of W;\n");
  text.replace(text.find("made[n] + c"), 11, "doubled[n] + c");
  TileProgram program = parsed(text);
  EXPECT_FALSE(merge_nests(program));
}

TEST(MakeResident, LoadsBeforeTheFirstStepWhatAllRead) {
  const TileProgram before = parsed(kSteps);
  TileProgram after = before;
  ASSERT_TRUE(make_resident(after, 1 << 16));
  const std::string text = print(after);
  EXPECT_THAT(text, HasSubstr("    U_kept[m,j] = U[m,j] @[m=WARP_4, j=LANE_32];\n"));
  EXPECT_THAT(text, HasSubstr("g[m] = sum[j] U_kept[m,j]*H[j]"));
  EXPECT_THAT(text, HasSubstr("c[n] = sum[k] V_kept[n,k]*G[k]"));
  const int64_t weights = 2 * 40 * 24 * 4, steps = 5;
  EXPECT_EQ(same_outputs(before, before) - same_outputs(before, after), weights * (steps - 1));
  const auto scopes = derive_scopes(after);
  ASSERT_TRUE(scopes.ok());
  const BoxReuse reuse = reuse_of(after, *scopes);
  EXPECT_EQ(reuse.hits, 2);
  EXPECT_EQ(reuse.kept_bytes, 2 * 4 * 24 * 4);
  EXPECT_EQ(reuse.saved_bytes, weights * steps);
}

/// In merged nests, too; and a weight that two nests read stays once.
TEST(MakeResident, KeepsOneBoxForAllThatReadIt) {
  std::string text = kSteps;
  text.replace(text.find("V[n,k]*G[k]"), 11, "U[n,k]*G[k]");
  const TileProgram before = parsed(text);
  for (const bool merged : {false, true}) {
    TileProgram after = before;
    if (merged) ASSERT_TRUE(merge_nests(after));
    ASSERT_TRUE(make_resident(after, 1 << 16));
    EXPECT_THAT(print(after), HasSubstr("U_kept"));
    EXPECT_THAT(print(after), Not(HasSubstr("U_kept1"))) << print(after);
    same_outputs(before, after);
  }
}

TEST(MakeResident, KeepsWhatThereIsRoomFor) {
  TileProgram program = parsed(kSteps);
  ASSERT_TRUE(make_resident(program, 4 * 24 * 4));
  EXPECT_THAT(print(program), HasSubstr("U_kept"));
  EXPECT_THAT(print(program), Not(HasSubstr("V_kept")));
  same_outputs(parsed(kSteps), program);
  EXPECT_FALSE(make_resident(program, 64));
}

/// What changes with the steps, and what more iterations than blocks would share, is read anew.
TEST(MakeResident, LeavesSlicesAndIterationsThatBlocksShare) {
  std::string text = kSteps;
  text.replace(text.find("blocks 12"), 9, "blocks 8");
  TileProgram program = parsed(text);
  EXPECT_FALSE(make_resident(program, 1 << 16));
  TileProgram all = parsed(kSteps);
  ASSERT_TRUE(make_resident(all, 1 << 16));
  EXPECT_THAT(print(all), Not(HasSubstr("x_kept")));
}

}  // namespace
}  // namespace weft::tile_test
