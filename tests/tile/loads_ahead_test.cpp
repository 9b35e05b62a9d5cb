// Which loads need not wait for a barrier of the grid, what that makes of a program, and what the
// verifier refuses.

#include "tile/analysis/loads_ahead.h"

#include <gmock/gmock.h>

#include <regex>

#include "tests/tile/program_cases.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/check/verify_tile_program.h"
#include "tile/rewrite/load_ahead.h"
#include "tile/text/tile_text.h"

namespace weft::tile_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string marked_text() { return read_text(program_directory() + "ahead_gpu.tile"); }
std::string plain_text() {
  return std::regex_replace(marked_text(), std::regex(" ahead carry"), " carry");
}

TileProgram parsed(const std::string& text) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message << text;
  return program.ok() ? *program : TileProgram{};
}

ScopeAnalysis scopes_of(const TileProgram& program) {
  auto scopes = derive_scopes(program);
  EXPECT_TRUE(scopes.ok()) << scopes.error().message << print(program);
  return scopes.ok() ? std::move(*scopes) : ScopeAnalysis{};
}

std::vector<LoopAhead> may_go(const TileProgram& program, bool marked = false) {
  return loops_ahead(structure_of(program), scopes_of(program), marked);
}

/// What goes, by the names of the values that are filled.
std::vector<std::string> names(const std::string& text) {
  const TileProgram program = parsed(text);
  std::vector<std::string> out;
  for (const LoopAhead& loop : may_go(program)) {
    for (const TileStatement* load : loop.loads)
      out.push_back(program.symbols[static_cast<size_t>(load->targets[0].symbol)].name);
  }
  return out;
}

std::string edited(const std::string& from, const std::string& to) {
  std::string text = plain_text();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  const Status status = verify_tile_program(parsed(text));
  EXPECT_FALSE(status.ok()) << text;
  return status.ok() ? "" : status.error().message;
}

/// Of the second and the third product the weights, not what an earlier one makes: the text before
/// and after.
TEST(LoadsAhead, WeightsOfNestsBehindABarrier) {
  TileProgram program = parsed(plain_text());
  EXPECT_THAT(may_go(program, /*marked=*/true), IsEmpty());
  EXPECT_THAT(names(plain_text()), ElementsAre("B2", "B3"));
  const std::vector<LoopAhead> loops = may_go(program);
  ASSERT_EQ(loops.size(), 2U);
  EXPECT_EQ(loops[0].bytes, 2 * 32 * 32 * 2);  // two of three stages
  EXPECT_EQ(loops[1].bytes, 3 * 16 * 32 * 2);
  EXPECT_FALSE(loops[0].all);
  std::vector<std::vector<int32_t>> paths;
  for (const LoopAhead& loop : loops) paths.push_back(loop.path);
  load_ahead(program, paths);
  EXPECT_EQ(print(program), print(parsed(marked_text())));
  EXPECT_TRUE(verify_tile_program(program).ok());
  EXPECT_EQ(may_go(program, /*marked=*/true).size(), 2U);
  // From scratch each time.
  load_ahead(program, {});
  EXPECT_EQ(print(program), print(parsed(plain_text())));
}

/// No bytes are asked for twice, and no more of a block's memory.
TEST(LoadsAhead, TakeNoMemoryOfTheirOwn) {
  const ScopeAnalysis before = scopes_of(parsed(plain_text())),
                      after = scopes_of(parsed(marked_text()));
  EXPECT_EQ(before.block_bytes, after.block_bytes);
  EXPECT_EQ(before.barriers.size(), after.barriers.size());
}

TEST(LoadsAhead, OtherLoadsWait) {
  // What a nest of the launch stores, in whatever shape.
  EXPECT_THAT(names(edited("W3[s,b] at", "h_in[b,s] at")), ElementsAre("B2"));
  // What is computed on its way.
  EXPECT_THAT(names(edited("B2[r,o] = W2[r,o]", "B2[r,o] = W2[r,o] * W2[r,o]")), ElementsAre("B3"));
  // What no asynchronous copy makes: two bytes.
  EXPECT_THAT(names(edited("W2[r,o] at block", "W2[r,o] at block @[r=REG_8-WARP_4, o=LANE_32]")),
              ElementsAre("B3"));
  // Behind a condition, or in a loop around.
  EXPECT_THAT(names(edited("seq r in 256 step 32 stages 3", "seq r in 256 step 32")),
              ElementsAre("B3"));
}

TEST(LoadsAhead, AreVerified) {
  const std::string first = "seq k in 96 step 16 stages 3";
  EXPECT_THAT(error_of(edited(first, first + " ahead")), HasSubstr("goes ahead of a barrier"));
  EXPECT_THAT(
      error_of(std::regex_replace(marked_text(), std::regex("W3\\[s,b\\] at"), "h_in[b,s] at")),
      HasSubstr("goes ahead of a barrier"));
  // The place of what a block keeps for the nest.
  const TileProgram program = parsed(marked_text());
  ScopeAnalysis scopes = scopes_of(program);
  EXPECT_TRUE(verify_tile_program(program, scopes).ok());
  const auto buffer = [&](const char* name) -> SymbolScope& {
    return scopes.symbols[static_cast<size_t>(program.find_symbol(name))];
  };
  buffer("B2").offset = buffer("A2").offset;
  const Status status = verify_tile_program(program, scopes);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message,
              HasSubstr("B2 is loaded ahead of a barrier into bytes of A2"));
}

/// A block keeps a box for the nest and reads it in front of the loop: the loads lie elsewhere.
TEST(LoadsAhead, LieBesideWhatBlocksKeep) {
  const std::string text = R"(
kernel k(x: f32[64,64], w: f32[64,64], v: f32[64,64], out y: f32[64,64]) blocks 4 warps 4 gpu {
  p: 64;
  workspace h: f32[64,64];
  view h_in: f32[64,64] of h;
  grid m in 64 step 16 {
    X[m,p] = x[m,p] at block;
    h[m,p] = tanh(X[m,p]);
  }
  grid i in 64 step 16 {
    o[i,p] = X[i,p] * 2;
    q[i] = max[p] o[i,p];
    seq k in 64 step 16 stages 3 ahead carry acc[i,p]: f32 = 0 {
      A[k] = h_in[k,k] at block;
      B[k,p] = v[k,p] at block;
      t[i,p] = sum[k] A[k] * B[k,p];
      acc'[i,p] = acc[i,p] + t[i,p];
    }
    y[i,p] = acc[i,p] + q[i];
  }
})";
  const TileProgram program = parsed(text);
  const Status status = verify_tile_program(program);
  EXPECT_TRUE(status.ok()) << status.error().message;
  const ScopeAnalysis scopes = scopes_of(program);
  const auto buffer = [&](const char* name) -> const SymbolScope& {
    return scopes.symbols[static_cast<size_t>(program.find_symbol(name))];
  };
  const SymbolScope &kept = buffer("X"), &loaded = buffer("B");
  EXPECT_TRUE(kept.offset + kept.bytes <= loaded.offset ||
              loaded.offset + loaded.bytes <= kept.offset)
      << print(program, scopes);
  // Behind the barrier the one may take the place of the other.
  const ScopeAnalysis waiting =
      scopes_of(parsed(std::regex_replace(text, std::regex(" ahead"), "")));
  EXPECT_LT(waiting.block_bytes, scopes.block_bytes);
}

}  // namespace
}  // namespace weft::tile_test
