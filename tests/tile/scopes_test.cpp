// Single rules: scopes, buffers, barriers, capacity.

#include <gtest/gtest.h>

#include "tile/analysis/derive_scopes.h"
#include "tile/analysis/predict_traffic.h"
#include "tile/check/fits.h"
#include "tile/scope_analysis.h"
#include "tile/text/tile_text.h"
#include "tile/tile_program.h"

namespace weft {
namespace {

TileProgram parsed(std::string_view text) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? *program : TileProgram{};
}

ScopeAnalysis derived(const TileProgram& program) {
  auto scopes = derive_scopes(program);
  EXPECT_TRUE(scopes.ok()) << scopes.error().message;
  return scopes.ok() ? *scopes : ScopeAnalysis{};
}

const SymbolScope& scope_of(const TileProgram& program, const ScopeAnalysis& scopes,
                            std::string_view name) {
  return scopes.symbols[static_cast<size_t>(program.find_symbol(name))];
}

// Rule 1a on a CPU: lanes and registers must agree, a fixed register may be named.
TEST(Scopes, CompareVectorPlaces) {
  const TileProgram program = parsed(R"(
kernel k(x: f32[4,64], out y: f32[4,64], out z: f32[64,4]) blocks P warps 1 {
  i: 4; j: 64; k: 4;
  A[i,j] = exp(x[i,j]) @[i=REG_4, j=REG_4-VEC_16];
  B[i,j] = exp(x[i,j]) @[i=REG_4, j=REG_4-VEC_16];
  C[i,j] = exp(x[i,j]) @[i=REG_4, j=REG_4-VEC_16];
  D[i,j] = exp(x[i,j]) @[i=REG_4, j=REG_4-VEC_16];
  y[i,j] = A[i,j] + B[0,j] + (j < 63 ? C[i,j+1] : 0);
  z[j,k] = D[k,j] @[j=REG_64, k=VEC_4];
})");
  const ScopeAnalysis scopes = derived(program);
  // Top-level statements are nests of their own: move them under one grid loop.
  EXPECT_EQ(scope_of(program, scopes, "A").scope, Scope::kGrid);

  const TileProgram one = parsed(R"(
kernel k(x: f32[4,64], out y: f32[4,64], out z: f32[64,4]) blocks P warps 1 {
  i: 4; j: 64; k: 4;
  grid g in 1 {
    A[i,j] = exp(x[i,j]) @[i=REG_4, j=REG_4-VEC_16];
    B[i,j] = exp(x[i,j]) @[i=REG_4, j=REG_4-VEC_16];
    C[i,j] = exp(x[i,j]) @[i=REG_4, j=REG_4-VEC_16];
    D[i,j] = exp(x[i,j]) @[i=REG_4, j=REG_4-VEC_16];
    y[i,j] = A[i,j] + B[0,j] + (j < 63 ? C[i,j+1] : 0);
    z[j,k] = D[k,j] @[j=REG_64, k=VEC_4];
  }
})");
  const ScopeAnalysis of_one = derived(one);
  EXPECT_EQ(scope_of(one, of_one, "A").scope, Scope::kRegister);
  EXPECT_EQ(scope_of(one, of_one, "B").scope, Scope::kRegister);
  EXPECT_EQ(scope_of(one, of_one, "C").scope, Scope::kBlock);
  EXPECT_EQ(scope_of(one, of_one, "C").reason, "read by y: on other lanes (1a)");
  EXPECT_EQ(scope_of(one, of_one, "D").scope, Scope::kBlock);
}

// Rule 1a on a GPU: one register for all lanes goes by shuffle, other warps through shared memory.
TEST(Scopes, TellShufflesFromSharedMemory) {
  const TileProgram program = parsed(R"(
kernel k(x: f32[4,32], out y: f32[4,32], out z: f32[4,32]) blocks 1 warps 4 {
  i: 4; j: 32;
  grid g in 1 {
    A[i,j] = exp(x[i,j]) @[i=WARP_4, j=LANE_32];
    y[i,j] = A[i,31-j] @[i=WARP_4, j=LANE_32];
    B[i,j] = exp(x[i,j]) @[i=WARP_4, j=LANE_32];
    z[i,j] = B[3-i,j] @[i=WARP_4, j=LANE_32];
  }
})");
  const ScopeAnalysis scopes = derived(program);
  EXPECT_EQ(scope_of(program, scopes, "A").scope, Scope::kWarp);
  EXPECT_EQ(scope_of(program, scopes, "A").reason, "read by y: by shuffle (1a)");
  EXPECT_EQ(scope_of(program, scopes, "B").scope, Scope::kBlock);
  ASSERT_EQ(scopes.barriers.size(), 1U);
  EXPECT_EQ(scopes.barriers[0].scope, Scope::kBlock);
  EXPECT_EQ(scopes.barriers[0].before, (std::vector<int32_t>{0, 3}));
}

// Two scratch buffers that are never alive together share their bytes; one that is, does not.
TEST(Scopes, ShareTheArenaByLiveness) {
  const TileProgram program = parsed(R"(
kernel k(x: f32[64], out y: f32[64], out z: f32[64]) blocks P warps 1 {
  grid g in 1 {
    seq i in 64 step 16 { A[i] = exp(x[i]) @[i=VEC_16]; }
    seq i in 64 step 16 { B[i] = A[63-i] + 1 @[i=VEC_16]; }
    seq i in 64 step 16 { C[i] = B[63-i] + 1 @[i=VEC_16]; }
    seq i in 64 step 16 { y[i] = C[i] @[i=VEC_16]; z[i] = C[63-i] @[i=VEC_16]; }
  }
})");
  const ScopeAnalysis scopes = derived(program);
  EXPECT_EQ(scope_of(program, scopes, "A").offset, 0);
  EXPECT_EQ(scope_of(program, scopes, "B").offset, 256);
  EXPECT_EQ(scope_of(program, scopes, "C").offset, 0);
  EXPECT_EQ(scopes.block_bytes, 512);
  EXPECT_TRUE(scopes.barriers.empty());
}

// A buffer that a loop reads again lives as long as the loop; one that ends before a branch gives
// its bytes to what the branch makes; all begin at whole vectors.
TEST(Scopes, ShareABlocksArenaAcrossLoopsAndBranches) {
  const TileProgram program = parsed(R"(
kernel k(x: f32[6,60], out y: f32[6,60], out z: f32[6,60]) blocks 6 warps 2 gpu {
  j: 60;
  grid i in 6 {
    A[j] = x[i,j] at block @[j=WARP_2-LANE_32];
    seq t in 3 carry s[j]: f32 = 0 @[j=WARP_2-LANE_32] {
      B[j] = s[j] + A[59-j] at block @[j=WARP_2-LANE_32];
      C[j] = B[59-j] + 1 at block @[j=WARP_2-LANE_32];
      s'[j] = s[j] + C[59-j] @[j=WARP_2-LANE_32];
    }
    D[j] = s[j] at block @[j=WARP_2-LANE_32];
    z[i,j] = D[59-j] @[j=WARP_2-LANE_32];
    E[j] = s[j] * 2 at block @[j=WARP_2-LANE_32];
    if i < 3 { y[i,j] = E[59-j] @[j=WARP_2-LANE_32]; }
    if 3 <= i { y[i,j] = E[j] @[j=WARP_2-LANE_32]; }
  }
})");
  const ScopeAnalysis scopes = derived(program);
  const auto range = [&](const char* name) {
    const SymbolScope& scope = scope_of(program, scopes, name);
    EXPECT_EQ(scope.offset % 16, 0) << name;
    EXPECT_LE(scope.offset + scope.bytes, scopes.block_bytes) << name;
    return std::pair(scope.offset, scope.offset + scope.bytes);
  };
  const auto apart = [&](const char* a, const char* b) {
    return range(a).second <= range(b).first || range(b).second <= range(a).first;
  };
  // A is read in every iteration, so nothing of the loop may lie there.
  EXPECT_TRUE(apart("A", "B") && apart("A", "C") && apart("B", "C"));
  // Behind the loop there is room again.
  EXPECT_EQ(range("D").first, 0);
  EXPECT_EQ(range("E").first, 0);
  EXPECT_LE(scopes.block_bytes, 3 * 256);
}

// What a block keeps over its iterations shares its bytes with nothing of them; with an iteration a
// block it may.
TEST(Scopes, WhatIterationsShareStaysInTheArena) {
  for (const bool several : {false, true}) {
    const TileProgram program = parsed(std::string(R"(
kernel k(x: f32[6,64], w: f32[64], out y: f32[6,64]) blocks )") +
                                       (several ? "2" : "6") + R"( warps 2 gpu {
  j: 64;
  grid i in 6 {
    W[j] = w[j] at block @[j=WARP_2-LANE_32];
    A[j] = x[i,j] * W[63-j] at block @[j=WARP_2-LANE_32];
    B[j] = A[63-j] + 1 at block @[j=WARP_2-LANE_32];
    y[i,j] = B[63-j] @[j=WARP_2-LANE_32];
  }
})");
    const ScopeAnalysis scopes = derived(program);
    EXPECT_EQ(scope_of(program, scopes, "W").offset, 0);
    EXPECT_EQ(scope_of(program, scopes, "A").offset, 256);
    EXPECT_EQ(scope_of(program, scopes, "B").offset, several ? 512 : 0);
  }
}

// A core goes through all of its iterations before a barrier ends: what it keeps lies in memory.
TEST(Scopes, KeepValuesAcrossABarrierInMemory) {
  const std::string text = R"(
kernel k(x: f32[8,64], out y: f32[8,64]) blocks P warps 1 {
  j: 64; t: 8;
  grid i in 8 {
    X[j] = exp(x[i,j]) @[j=REG_4-VEC_16];
    s[i] = sum[j] X[j];
    S = sum[t] s[t];
    y[i,j] = X[j] / S;
  }
})";
  const TileProgram program = parsed(text);
  const ScopeAnalysis scopes = derived(program);
  EXPECT_EQ(scope_of(program, scopes, "s").scope, Scope::kGrid);
  EXPECT_EQ(scope_of(program, scopes, "X").scope, Scope::kGrid);
  EXPECT_EQ(scope_of(program, scopes, "X").reason, "kept across a barrier (1d)");
  // Its coordinate does not tell the iterations apart.
  EXPECT_EQ(scope_of(program, scopes, "X").bytes, 8 * 64 * 4);
  EXPECT_EQ(scope_of(program, scopes, "s").bytes, 8 * 4);
  ASSERT_EQ(scopes.barriers.size(), 1U);
  EXPECT_EQ(scopes.barriers[0].before, (std::vector<int32_t>{0, 2}));
}

TEST(Scopes, DemandsAreObeyed) {
  const TileProgram program = parsed(R"(
kernel k(x: f32[64], out y: f32[64]) blocks P warps 1 {
  grid i in 64 step 16 {
    A[i] = exp(x[i]) at scratch @[i=VEC_16];
    y[i] = A[i];
  }
})");
  const ScopeAnalysis scopes = derived(program);
  EXPECT_EQ(scope_of(program, scopes, "A").scope, Scope::kBlock);
  EXPECT_EQ(scope_of(program, scopes, "A").extents, (std::vector<int64_t>{16}));
}

TEST(Fits, NamesWhatOverflows) {
  const TileProgram program = parsed(R"(
kernel k(x: f32[40,64], out y: f32[40,64]) blocks P warps 1 {
  i: 40;
  grid j in 64 step 16 {
    X[i,j] = exp(x[i,j]) @[i=REG_40, j=VEC_16];
    y[i,j] = X[i,j];
  }
})");
  Target target;
  target.name = "small";
  target.vector_registers = 16;
  const Decision decision = fits(program, derived(program), target);
  EXPECT_FALSE(decision);
  EXPECT_EQ(decision.reason(), "40 vector registers alive at once, small has 16 of them");
  target.vector_registers = 32;
  EXPECT_TRUE(fits(program, derived(program), target));
  target.kind = Target::Kind::kGpu;
  EXPECT_EQ(fits(program, derived(program), target).reason(),
            "k is a program for a CPU, small is a GPU");
}

/// What a block keeps in its arena, and two places in which eight warps leave parts of the maximum.
TEST(Fits, TakesABlockOfAGpuByWhatTheTargetSays) {
  const TileProgram program = parsed(R"(
kernel k(x: f32[64,16384], out y: f32[64,16384]) blocks 64 warps 8 per_sm 2 gpu {
  j: 16384;
  grid i in 64 {
    X[j] = x[i,j] at block @[j=REG_16-WARP_8-LANE_32-VEC_4];
    m = max[j] X[j] @[j=REG_16-WARP_8-LANE_32-VEC_4];
    y[i,j] = x[i,j] - m @[j=REG_16-WARP_8-LANE_32-VEC_4];
  }
})");
  const ScopeAnalysis scopes = derived(program);
  Target target = *find_target("h100-sxm");
  const Residency block = residency(program, scopes, target);
  EXPECT_EQ(block.threads, 256);
  EXPECT_EQ(block.shared_bytes, 16384 * 4 + 2 * 8 * 4);
  EXPECT_GT(block.registers, scopes.registers);
  EXPECT_EQ(block.blocks_per_sm, 3);
  EXPECT_TRUE(fits(program, scopes, target));
  target.shared_bytes_per_sm = 100 << 10;
  EXPECT_EQ(fits(program, scopes, target).reason(),
            "an SM of h100-sxm holds 1 such blocks, 2 have to be on it");
  target.shared_bytes_per_block = 64 << 10;
  EXPECT_EQ(fits(program, scopes, target).reason(),
            "65600 B of shared memory, h100-sxm has 65536 for a block");
  target.registers_per_thread = 16;
  EXPECT_EQ(fits(program, scopes, target).reason(),
            std::to_string(block.registers) + " registers of a thread, h100-sxm has 16");
}

/// y[i,j] = x[i,j] + the maximum of the cluster's parts of row i.
std::string shifted_rows(const std::string& blocks, const std::string& loops,
                         const std::string& part) {
  return "kernel k(x: f32[4,512], out y: f32[4,512]) blocks " + blocks + " warps 1 {\n  t: 4;\n" +
         loops + "    X[j] = x[i,j] @[j=LANE_32-VEC_4];\n    p[" + part +
         "] = max[j] X[j];\n    m = max[t] p[t];\n    y[i,j] = X[j] + m;\n  } }\n}";
}

TEST(Scopes, BlocksOfAClusterShareWhatTheyMakeSideBySide) {
  const std::string part = "(j-.j)/128";
  const TileProgram program =
      parsed(shifted_rows("16", "  grid i in 4 { cluster j in 512 step 128 {\n", part));
  const ScopeAnalysis scopes = derived(program);
  EXPECT_EQ(scopes.cluster_blocks, 4);
  EXPECT_EQ(scopes.workspace_bytes, 0);
  ASSERT_EQ(scopes.barriers.size(), 1u);
  EXPECT_EQ(scopes.barriers[0].scope, Scope::kCluster);
  EXPECT_TRUE(scopes.barriers[0].blocks.is_const(4));
  // Another iteration of the grid is out of a cluster's reach.
  const ScopeAnalysis grid =
      derived(parsed(shifted_rows("16", "  grid j in 512 step 128 { cluster i in 4 {\n", part)));
  ASSERT_EQ(grid.barriers.size(), 1u);
  EXPECT_EQ(grid.barriers[0].scope, Scope::kGrid);
  Target target;
  target.name = "small";
  target.kind = Target::Kind::kGpu;
  EXPECT_EQ(fits(program, scopes, target).reason(), "clusters of 4 blocks, small has none");
  target.cluster_blocks = 2;
  EXPECT_EQ(fits(program, scopes, target).reason(), "clusters of 4 blocks, small has up to 2");
  target.cluster_blocks = 4;
  EXPECT_TRUE(fits(program, scopes, target));
}

/// A program whose blocks are one cluster: it has as many as a cluster has at most.
TEST(Scopes, AllBlocksAreOneCluster) {
  const auto text = [](const char* blocks) {
    return std::string("kernel k(x: f32[64], out p: f32[64], out y: f32[64]) blocks ") + blocks +
           " warps 1 gpu {\n  view q: f32[64] of p;\n  grid i in 64 step 8 { p[i] = x[i]*2; }\n" +
           "  grid j in 64 step 8 { y[j] = q[63-j]; }\n}\n";
  };
  const TileProgram program = parsed(text("6 cluster"));
  const ScopeAnalysis scopes = derived(program);
  EXPECT_EQ(scopes.cluster_blocks, 6);
  ASSERT_EQ(scopes.barriers.size(), 1u);
  EXPECT_NE(print(program, scopes).find("barrier: grid, 6 blocks of one cluster"),
            std::string::npos);
  EXPECT_EQ(derived(parsed(text("6"))).cluster_blocks, 1);
  Target target;
  target.name = "small";
  target.kind = Target::Kind::kGpu;
  EXPECT_EQ(fits(program, scopes, target).reason(), "clusters of 6 blocks, small has none");
  target.cluster_blocks = 5;
  EXPECT_EQ(fits(program, scopes, target).reason(), "clusters of 6 blocks, small has up to 5");
  target.cluster_blocks = 6;
  EXPECT_TRUE(fits(program, scopes, target));
}

TEST(Scopes, BlocksOfAClusterHaveOneIterationEach) {
  const auto message = [](const std::string& text) {
    const auto scopes = derive_scopes(parsed(text));
    EXPECT_FALSE(scopes.ok());
    return scopes.ok() ? "" : scopes.error().message;
  };
  EXPECT_EQ(
      message(shifted_rows("8", "  grid i in 4 { cluster j in 512 step 128 {\n", "(j-.j)/128")),
      "tile program k: 16 iterations of grid and cluster loops on 8 blocks, which needs one "
      "for each");
  EXPECT_EQ(message(shifted_rows("16", "  grid i in 4 { cluster j in 128*i+512 step 128 {\n",
                                 "(j-.j)/128")),
            "tile program k: cluster j has bounds that are not constant");
}

/// y[i,j] = x[i,j] * w[j] where `loop` makes the weights.
std::string weighted_rows(const std::string& blocks, const std::string& loop) {
  return "kernel k(x: f32[100,512], w: f32[512], out y: f32[100,512]) blocks " + blocks +
         " warps 1 gpu {\n  j: 512;\n  grid i in 100 {\n" + loop +
         "    V[j] = W[j] @[j=REG_4-LANE_32-VEC_4];\n"
         "    y[i,j] = x[i,j] * V[j] @[j=REG_4-LANE_32-VEC_4];\n  }\n}";
}

/// Each block has a part; the cluster asks for all of them once, however many rows its blocks take.
TEST(Scopes, BlocksOfAClusterShareWhatTheyKeep) {
  const TileProgram program =
      parsed(weighted_rows("6", "    seq c in 512 step 256 by cluster { W[c] = w[c]; }\n"));
  const ScopeAnalysis scopes = derived(program);
  EXPECT_EQ(scopes.cluster_blocks, 2);
  const auto w = static_cast<size_t>(program.find_symbol("W"));
  EXPECT_EQ(scopes.symbols[w].scope, Scope::kCluster);
  EXPECT_EQ(scopes.symbols[w].bytes, 256 * 4);
  ASSERT_EQ(scopes.barriers.size(), 1u);
  EXPECT_EQ(scopes.barriers[0].scope, Scope::kCluster);
  const auto traffic = predict_traffic(program, scopes);
  ASSERT_TRUE(traffic.ok()) << traffic.error().message;
  EXPECT_TRUE(traffic->exact);
  EXPECT_EQ(traffic->requested_read, 100 * 512 * 4 + 3 * 512 * 4);
}

/// Loops too long to go through element by element, and a table of which few rows are read.
TEST(Traffic, OfLongLoopsIsCountedWithoutEnumeratingThem) {
  const TileProgram copy = parsed(R"(
kernel k(x: f32[100000001], w: f32[2], out y: f32[100000001]) blocks P warps 1 {
  grid i in 100000001 step 64 { y[i] = x[i] * w[i%2] @[i=REG_4-VEC_16]; }
})");
  const auto traffic = predict_traffic(copy, derived(copy));
  ASSERT_TRUE(traffic.ok()) << traffic.error().message;
  EXPECT_EQ(traffic->requested_written, 400000004);
  EXPECT_EQ(traffic->unique_written, 400000004);
  EXPECT_EQ(traffic->unique_read, 400000004 + 8);
  const TileProgram rows = parsed(R"(
kernel k(t: f32[1000000,64], n: i64[8], out y: f32[8,64]) blocks P warps 1 {
  j: 64;
  grid i in 8 { y[i,j] = t[n[i],j] @[j=REG_4-VEC_16]; }
})");
  const auto gathered = predict_traffic(rows, derived(rows));
  ASSERT_TRUE(gathered.ok()) << gathered.error().message;
  EXPECT_EQ(gathered->unique_read, 8 * 64 * 4 + 8 * 8);
  EXPECT_FALSE(gathered->exact);
}

/// Rows and columns of a padded window are counted apart: together they have nine million points.
TEST(Traffic, OfAConjunctionIsCountedByItsParts) {
  const TileProgram window = parsed(R"(
kernel k(x: f32[1000,1000], out y: f32[1000,1000]) blocks P warps 1 {
  k: 3; l: 3;
  grid i in 1000, j in 1000 step 8 {
    y[i,j] = sum[k,l] (i+k-1 >= 0 && i+k-1 < 1000 && (j+l-1 >= 0 && j+l-1 < 1000) ? x[i+k-1,j+l-1] : 0.0) @[j=VEC_8, k=REG_3, l=REG_3];
  }
})");
  const auto traffic = predict_traffic(window, derived(window));
  ASSERT_TRUE(traffic.ok()) << traffic.error().message;
  EXPECT_TRUE(traffic->exact);
  EXPECT_EQ(traffic->requested_read, 2998 * 2998 * 4);
  EXPECT_EQ(traffic->unique_read, 1000 * 1000 * 4);
}

/// Lanes of a warp that read the same element of a window ask for it once.
TEST(Traffic, OfWindowsOnAGpuIsABound) {
  const auto exact = [](const std::string& index) {
    const TileProgram program = parsed(
        "kernel k(x: f32[512], out y: f32[16]) blocks 1 warps 1 gpu {\n  k: 4;\n"
        "  grid i in 16 step 16 {\n    y[i] = sum[k] x[" +
        index + "] @[i=LANE_16, k=REG_4];\n  }\n}");
    const auto traffic = predict_traffic(program, derived(program));
    EXPECT_TRUE(traffic.ok()) << traffic.error().message;
    return traffic.ok() && traffic->exact;
  };
  EXPECT_FALSE(exact("i+k"));
  EXPECT_FALSE(exact("3*i+k"));
  EXPECT_FALSE(exact("i/2+16*k"));
  EXPECT_TRUE(exact("4*i+k"));
  EXPECT_TRUE(exact("i+16*k"));
}

/// Rows that a block makes, each of which two of its rows read: no other block needs them.
TEST(Scopes, QuotientsOfRowsStayWithinTheirBlock) {
  const TileProgram program = parsed(R"(
kernel k(x: f32[8,16], out y: f32[16,16]) blocks P warps 1 {
  grid b in 8 step 2 {
    seq i in b .. b+2 {
      seq j in 16 step 16 { A[i,j] = exp(x[i,j]) @[j=VEC_16]; }
    }
    seq h in b*2 .. b*2+4 {
      seq k in 16 step 16 { y[h,k] = A[h/2,k] @[k=VEC_16]; }
    }
  }
})");
  EXPECT_EQ(scope_of(program, derived(program), "A").scope, Scope::kBlock);
}

TEST(Scopes, WhatBlocksOfAClusterShareStaysTheSame) {
  const auto message = [](const std::string& blocks, const std::string& loop) {
    const auto scopes = derive_scopes(parsed(weighted_rows(blocks, loop)));
    EXPECT_FALSE(scopes.ok());
    return scopes.ok() ? "" : scopes.error().message;
  };
  const std::string loop = "    seq c in 512 step 256 by cluster { W[c] = w[c]; }\n";
  EXPECT_EQ(message("7", loop),
            "tile program k: seq c is made by clusters of 2, which its blocks do not form");
  EXPECT_EQ(message("6", "    seq c in 512 step 512 by cluster { W[c] = w[c]; }\n"),
            "tile program k: loops made by clusters of different sizes, or of one block");
  EXPECT_EQ(message("6", "    seq c in 512 step 256 by cluster { W[c] = x[i,c]; }\n"),
            "tile program k: W is made by seq c and changes with the grid");
}

TEST(TileProgramHash, LooksAtStructureAndNotAtNames) {
  const TileProgram a = parsed(
      "kernel a(x: f32[64], out y: f32[64]) blocks P warps 1 { grid i in 64 step 16 { y[i] = "
      "exp(x[i]) @[i=VEC_16]; } }");
  const TileProgram b = parsed(
      "kernel b(u: f32[64], out v: f32[64]) blocks Q warps 1 { grid k in 64 step 16 { v[k] = "
      "exp(u[k]) @[k=VEC_16]; } }");
  const TileProgram c = parsed(
      "kernel a(x: f32[64], out y: f32[64]) blocks P warps 1 { grid i in 64 step 16 { y[i] = "
      "log(x[i]) @[i=VEC_16]; } }");
  EXPECT_EQ(tile_program_hash(a), tile_program_hash(b));
  EXPECT_NE(tile_program_hash(a), tile_program_hash(c));
}

}  // namespace
}  // namespace weft
