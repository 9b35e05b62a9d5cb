// Programs that the parser or the verifier refuses, each with the reason.

#include <gtest/gtest.h>

#include "tile/check/verify_tile_program.h"
#include "tile/scope_analysis.h"
#include "tile/text/tile_text.h"
#include "tile/tile_program.h"

namespace weft {
namespace {

constexpr std::string_view kRows = R"(
kernel rows(x: f32[10,100], b: f32[100], out y: f32[10,100]) blocks 10 warps 1 {
  jj: 32;
  grid i in 10 step 2 {
    seq j in 100 step 32 carry s[i,.j]: f32 = 0 @[i=REG_2, j=REG_2-VEC_16] {
      E[i,j] = exp(x[i,j]);
      s'[i,.j] = s[i,.j] + E[i,j];
    }
    S[i] = sum[jj] s[i,jj];
    seq j in 100 step 32 {
      y[i,j] = E[i,j] / S[i] + b[j];
    }
  }
}
)";

/// The first occurrence of `from` replaced.
std::string changed(std::string_view text, std::string_view from, std::string_view to) {
  std::string out(text);
  const size_t at = out.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return out.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  const auto program = parse_tile_program(text);
  if (!program.ok()) return program.error().message;
  const Status status = verify_tile_program(*program);
  return status.ok() ? "accepted" : status.error().message;
}

void expect_refused(std::string_view text, std::string_view from, std::string_view to,
                    std::string_view reason) {
  const std::string message = refusal(changed(text, from, to));
  EXPECT_NE(message.find(reason), std::string::npos) << message;
}

TEST(VerifyTileProgram, AcceptsTheProgramThatTheMutationsBeginWith) {
  EXPECT_EQ(refusal(std::string(kRows)), "accepted");
}

TEST(VerifyTileProgram, BeyondATailIsReadWhereZerosAreLoadedAhead) {
  constexpr std::string_view kProduct = R"(
kernel k(a: f32[8,20], b: f32[20], out y: f32[8]) blocks 1 warps 1 gpu {
  grid m in 8 step 8 {
    seq k in 20 step 8 stages 2 carry acc[m]: f32 = 0 @[m=LANE_8] {
      A[m,k] = a[m,k] at block @[m=REG_2-LANE_4, k=LANE_8];
      seq q in 8 unroll carry part[m]: f32 = acc[m] @[m=LANE_8] {
        part'[m] = part[m] + (A[m,k+q-.k] fill 0) * (k+q-.k < 20 ? b[k+q-.k] : 0) @[m=LANE_8];
      }
      acc'[m] = part[m] @[m=LANE_8];
    }
    y[m] = acc[m] @[m=LANE_8];
  }
}
)";
  EXPECT_EQ(refusal(std::string(kProduct)), "accepted");
  expect_refused(kProduct, "fill 0", "fill 1", "made ahead, with something else than 0");
  expect_refused(kProduct, "stages 2", "", "nor made ahead by a loop of several stages");
  // Several loops of one header make nothing ahead.
  expect_refused(kProduct, "seq k in 20", "seq c in 1, k in 20",
                 "nor made ahead by a loop of several stages");
  expect_refused(kProduct, " fill 0", "", "up to 23 along coordinate 1, where seq k ends at 20");
  EXPECT_EQ(refusal(changed(changed(kProduct, " fill 0", ""), "q in 8", "q in min(8, 20-(k-.k))")),
            "accepted");
  EXPECT_EQ(refusal(changed(changed(kProduct, " fill 0", ""), "q in 8", "q in 4")), "accepted");
}

TEST(VerifyTileProgram, OneClusterHasAKnownNumberOfBlocksAndNoOtherInIt) {
  constexpr std::string_view kDouble = R"(
kernel k(x: f32[64], out y: f32[64]) blocks 4 cluster warps 1 gpu {
  grid i in 64 step 8 { y[i] = x[i]*2; }
}
)";
  EXPECT_EQ(refusal(std::string(kDouble)), "accepted");
  const std::string known = "one cluster of a CPU's blocks, or of an unknown number";
  expect_refused(kDouble, "warps 1 gpu", "warps 1 cpu", known);
  expect_refused(kDouble, "blocks 4", "blocks P", known);
  expect_refused(kDouble, "grid i in 64 step 8 { y[i] = x[i]*2; }",
                 "grid k in 1 { cluster i in 64 step 16 { y[i] = x[i]*2; } }",
                 "its one cluster holds others");
}

TEST(VerifyTileProgram, LoopsByClustersStandInAGridLoopAndHoldStatements) {
  constexpr std::string_view kWeights = R"(
kernel k(x: f32[100,64], w: f32[64], out y: f32[100,64]) blocks 6 warps 1 gpu {
  j: 64;
  grid i in 100 {
    seq c in 64 step 32 by cluster { W[c] = w[c]; }
    y[i,j] = x[i,j] * W[j] @[j=REG_2-LANE_32];
  }
}
)";
  EXPECT_EQ(refusal(std::string(kWeights)), "accepted");
  const std::string place = "does not stand directly in a GPU's grid loop";
  expect_refused(kWeights, "warps 1 gpu", "warps 1 cpu", place);
  expect_refused(kWeights, "seq c", "cluster c", place);
  expect_refused(kWeights, "by cluster { W[c] = w[c]; }",
                 "by cluster { seq d in 2 { } W[c] = w[c]; }", "holds more than statements");
  expect_refused(kWeights, "by cluster {", "by cluster carry z: f32 = 0 {",
                 "several variables, carries or stages");
  expect_refused(kWeights, "by cluster", "by clusters", "expected `cluster`");
}

/// A window's loop ends at the border of what it reads.
constexpr std::string_view kWindow =
    R"(kernel window(x: f32[8,9], out y: f32[9,9]) blocks P warps 1 {
  j: 9;
  grid i in 9 {
    seq k in max(0, -i+1) .. min(3, -i+9) carry m[j]: f32 = -inf @[j=REG_9] {
      m'[j] = max(m[j], x[i+k-1,j]) @[j=REG_9];
    }
    y[i,j] = m[j] @[j=REG_9];
  }
}
)";

TEST(VerifyTileProgram, SeesThatWindowsEndAtBorders) {
  EXPECT_EQ(refusal(std::string(kWindow)), "accepted");
  expect_refused(kWindow, "-i+1", "-i", "reads x[i+k-1,j] at [-1, ");
  expect_refused(kWindow, "-i+9", "-i+10", "along coordinate 0 of extent 8");
  // What is read in no iteration is not outside.
  EXPECT_EQ(refusal(changed(changed(kWindow, "x: f32[8,9]", "x: f32[0,9]"),
                            "max(0, -i+1) .. min(3, -i+9)", "0")),
            "accepted");
  // A window over blocks of four elements.
  std::string blocks = changed(kWindow, "x[i+k-1,j]", "x[i*4+k*4+a-4,j]");
  blocks =
      changed(changed(blocks, "x: f32[8,9]", "x: f32[32,9]"), "grid i in 9", "grid i in 9, a in 4");
  blocks = changed(changed(blocks, "y: f32[9,9]", "y: f32[9,4,9]"), "y[i,j]", "y[i,a,j]");
  EXPECT_EQ(refusal(blocks), "accepted");
  expect_refused(blocks, "-i+1", "-i", "along coordinate 0 of extent 32");
}

/// Places two apart and one of padding: the border lies between two of them for every other result.
TEST(VerifyTileProgram, SeesThatWindowsOfPlacesApartEndAtBorders) {
  const std::string apart =
      changed(changed(kWindow, "x[i+k-1,j]", "x[i+k*2-1,j]"), "max(0, -i+1) .. min(3, -i+9)",
              "max(0, (-i+2)/2) .. min(3, (-i+2)/2+4)");
  EXPECT_EQ(refusal(apart), "accepted");
  expect_refused(apart, "max(0, (-i+2)/2)", "max(0, (-i+1)/2)", "reads x[i+k*2-1,j] at [-1, 7]");
  expect_refused(apart, "(-i+2)/2+4", "(-i+3)/2+4", "at [0, 8] along coordinate 0 of extent 8");
}

TEST(VerifyTileProgram, SeesThatWindowsEndAtTwoBordersOfOneAxis) {
  // Over blocks of eight elements and within each.
  constexpr std::string_view kWindows =
      R"(kernel windows(x: f32[24,9], out y: f32[3,5,9]) blocks P warps 1 {
  j: 9;
  grid i in 3, a in 5 {
    seq k in max(0, -i+1) .. min(3, -i+4), b in max(0, -a*2+1) .. min(3, -a*2+9) carry m[j]: f32 = 0 @[j=REG_9] {
      m'[j] = m[j] + x[i*8+k*8+a*2+b-9,j] @[j=REG_9];
    }
    y[i,a,j] = m[j] @[j=REG_9];
  }
}
)";
  EXPECT_EQ(refusal(std::string(kWindows)), "accepted");
  for (const auto& [from, to] : {std::pair("-i+1", "-i"), std::pair("-i+4", "-i+5"),
                                 std::pair("-a*2+1", "-a*2"), std::pair("-a*2+9", "-a*2+10")}) {
    expect_refused(kWindows, from, to, "along coordinate 0 of extent 24");
  }
}

TEST(VerifyTileProgram, NamesWhatTheTextGetsWrong) {
  expect_refused(kRows, "exp(x[i,j])", "exp(z[i,j])", "6:20: `z` is not defined");
  expect_refused(kRows, "exp(x[i,j])", "exq(x[i,j])", "6:16: there is no function `exq`");
  expect_refused(kRows, "exp(x[i,j])", "exp(x[i,j], 1)", "`exp` takes 1 argument, here are 2");
  expect_refused(kRows, "exp(x[i,j]);", "exp(x[i,j])", "7:7: expected `;`, found `s`");
  expect_refused(kRows, "s'[i,.j] =", "s[i,.j] =", "`s` is carried: its next value is `s'`");
  expect_refused(kRows, "S[i] = sum", "E[i] = sum", "`E` is already defined");
  expect_refused(kRows, "y[i,j] =", "x[i,j] =", "`x` is an input");
  expect_refused(kRows, "sum[jj]", "sum[i, kk]", "`kk` is no axis or loop");
  expect_refused(kRows, "j=REG_2", "j=RAG_2", "expected WARP_n, LANE_n, REG_n or VEC_n");
  expect_refused(kRows, "grid i", "grid jj", "`jj` is already defined");
  expect_refused(kRows, "f32 = 0", "f33 = 0", "expected an element type, found `f33`");
  expect_refused(kRows, ".j]: f32", ".k]: f32", "`.k`: no loop with a step above 1 has that name");
  expect_refused(kRows, "b[j]", "(i < 3)", "operands of `+` are f32 and bool");
  expect_refused(kRows, "b[j]", "(b[j] ? 1 : 2)", "the condition of `?` is f32");
  expect_refused(kRows, "b[j]", "i64(b[j])", "operands of `+` are f32 and i64");
  expect_refused(kRows, "jj: 32;", "jj: 32; jj: 32;", "`jj` is already defined");
  expect_refused(kRows, "100 step 32 {", "100 step 0 {", "expected the step, a positive integer");
  expect_refused(kRows, "warps 1", "warps", "expected the number of warps");
}

TEST(VerifyTileProgram, RefusesReadsThatNothingMakes) {
  // Too small a tile for its reader; a value of the loop's last iteration only; a wider axis than
  // the carry.
  expect_refused(kRows, "E[i,j] / S[i]", "E[i,j+1] / S[i]",
                 "coordinate 1 reaches [1, 100], made is [0, 99]");
  expect_refused(kRows, "E[i,j] = exp", "E[i,.j] = exp", "made");
  expect_refused(kRows, "jj: 32", "jj: 33", "coordinate 1 reaches [0, 32], made is [0, 31]");
  expect_refused(kRows, "b[j]", "b[j+1]", "reads b[j+1] at [1, 100] along coordinate 0");
  expect_refused(kRows, "b[j]", "b[i-1]", "at [-1, 8]");
  expect_refused(kRows, "b[j]", "b[i,j]", "names 2 of 1 coordinates of b");
  // A gather and a guarded read are in order.
  EXPECT_EQ(refusal(changed(kRows, "b[j]", "(j < 99 ? b[j+1] : 0)")), "accepted");
  EXPECT_EQ(refusal(changed(kRows, "b[j]", "b[j+1] fill 0")), "accepted");
}

// A strip of a long vector: the loop begins where the strip does and ends with the vector.
TEST(VerifyTileProgram, SeesThatALoopEndsWithTheTensor) {
  EXPECT_EQ(refusal(R"(
kernel k(x: f32[11760], out y: f32[11760]) blocks P warps 1 {
  grid g in 3 {
    seq i in g*4096 .. min(11760, g*4096+4096) step 64 {
      v[i] = exp(x[i]) @[i=REG_4-VEC_16];
      y[i] = v[i];
    }
  }
})"),
            "accepted");
}

TEST(VerifyTileProgram, RefusesValuesOfOtherIterations) {
  expect_refused(kRows, "s[i,.j] + E[i,j];", "s[i,.j] + E[i,j]; D[i,j] = E[i,j-32];",
                 "coordinate 1 reaches");
  expect_refused(kRows, "E[i,j] = exp(x[i,j]);",
                 "E[i,j] = exp(x[i,j]); D[i,j] = j < 32 ? x[i,j] : E[i,j-32];",
                 "made in another iteration of seq j and not carried");
}

TEST(VerifyTileProgram, RefusesWhatIsOverwritten) {
  expect_refused(kRows, "E[i,j] / S[i]", "E[i,j] / S[i] + L[i]", "`L` is not defined");
  const std::string kept = changed(kRows, "s'[i,.j] =", "L[i] = x[i,0] + f32(j-.j); s'[i,.j] =");
  expect_refused(kept, "E[i,j] / S[i]", "E[i,j] / S[i] + L[i]",
                 "behind seq j, whose iterations overwrite it");
}

/// Pieces of a loop each keep a stretch of their own; shorter steps from piece to piece overwrite.
TEST(VerifyTileProgram, PiecesKeepTheirStretches) {
  const auto kept = [](const std::string& stretch) {
    return "kernel k(x: f32[9,70], out y: f32[9,70]) blocks P warps 1 {\n  grid i in 9 {\n"
           "    seq p in 3 carry s: f32 = 0.0 {\n      seq k in " +
           stretch + R"( step 8 carry t[.k]: f32 = 0.0 @[k=VEC_8] {
        e[k] = exp(x[i,k]) @[k=VEC_8];
        t'[.k] = t[.k] + e[k] @[k=VEC_8];
      }
      s' = s + 1.0;
    }
    seq k_2 in 70 step 8 { y[i,k_2] = e[k_2] * s @[k_2=VEC_8]; }
  }
})";
  };
  EXPECT_EQ(refusal(kept("p*24 .. min(70, p*24+24)")), "accepted");
  EXPECT_NE(refusal(kept("p*24 .. min(70, p*24+32)")).find("overwrite"), std::string::npos);
}

TEST(VerifyTileProgram, RefusesStoresThatMeetOrMiss) {
  expect_refused(kRows, "seq j in 100 step 32 {", "seq j in 96 step 32 {",
                 "40 of 1000 elements of y are not written");
  expect_refused(kRows, "y[i,j] = E", "y[i,.j] = E", "writes elements of y more than once");
  expect_refused(kRows,
                 "y[i,j] =", "y[i,j] = 1; y[i,j] =", "two statements write the same elements of y");
  expect_refused(kRows, "+ b[j];", "; y[j,i] = b[j];", "writes outside of y");
  // One half each is whole.
  EXPECT_EQ(refusal(changed(kRows, "seq j in 100 step 32 {\n      y[i,j] = E[i,j] / S[i] + b[j];",
                            "seq j in 50 step 32 { y[i,j] = E[i,j]; } "
                            "seq j in 50 .. 100 step 32 { y[i,j] = E[i,j] / S[i];")),
            "accepted");
}

/// The inner loop begins where the only iteration of the outer one does: at a constant, though its
/// text names a variable.
TEST(VerifyTileProgram, CountsALoopThatBeginsWithTheOnlyIterationAroundIt) {
  EXPECT_EQ(refusal(R"(
kernel k(x: f32[16,11], out r: f32[16]) blocks 1 warps 8 gpu {
  j: 11;
  grid a in 16 step 16 {
    seq b in a-.a .. a-.a+16 step 16 {
      m[b] = max[j] x[b,j] @[b=WARP_8-LANE_2, j=LANE_16];
      r[b] = m[b] @[b=WARP_8-LANE_2, j=LANE_16];
    }
  }
})"),
            "accepted");
}

TEST(VerifyTileProgram, RefusesBadNesting) {
  expect_refused(kRows, "seq j in 100 step 32 {", "grid k in 1 { } seq j in 100 step 32 {",
                 "accepted");
  expect_refused(kRows, "seq j in 100 step 32 {",
                 "seq k in 1 { grid l in 1 { } } seq j in 100 step 32 {",
                 "grid l stands inside a seq loop");
  expect_refused(kRows, "seq j in 100 step 32 {",
                 "grid k in 1 { } grid l in 1 { } seq j in 100 step 32 {",
                 "two grid loops stand side by side");
  expect_refused(kRows, "seq j in 100 step 32 {", "pack { } seq j in 100 step 32 {",
                 "a pack stands inside a loop");
  expect_refused(kRows, "y[i,j] =", "if j < 50 { } y[i,j] =",
                 "`if j < 50` depends on j, which runs within a tile");
  expect_refused(kRows, "S[i] = sum[jj] s[i,jj];", "if i-.i < 4 { S[i] = sum[jj] s[i,jj]; }",
                 "reads S, which is made under a condition only");
}

TEST(VerifyTileProgram, RefusesPlacesThatDoNotFit) {
  expect_refused(kRows, "j=REG_2-VEC_16", "j=REG_1-VEC_16", "places 16 of the 32 elements along j");
  expect_refused(kRows, "i=REG_2,", "i=VEC_2,", "has two vector axes");
  expect_refused(kRows, "+ b[j];", "+ b[j] @[jj=REG_32];",
                 "places jj, which is not one axis of its box");
  expect_refused(changed(kRows, "warps 1", "warps 2"), "i=REG_2", "i=WARP_4", "needs 4 warps of 2");
  expect_refused(changed(kRows, "warps 1", "warps 2"), "i=REG_2", "i=LANE_64", "64 lanes of 32");
}

TEST(VerifyTileProgram, RefusesAxesThatLeadNowhere) {
  expect_refused(kRows, "b[j]", "b[jj]", "reads along jj, which it neither keeps nor reduces");
  expect_refused(kRows, "S[i] = sum[jj] s[i,jj]", "S[i,jj] = sum[jj] s[i,jj]",
                 "reduces jj and keeps it");
}

// A value crosses blocks between two statements of one condition.
TEST(VerifyTileProgram, RefusesABarrierInsideACondition) {
  const std::string text = R"(
kernel shift(x: f32[8,64], out y: f32[8,64]) blocks 8 warps 1 gpu {
  j: 64;
  grid i in 8 {
    seq t in 1 .. 3 {
      if t < 2 {
        s[i,j] = x[i,j] @[j=REG_2-LANE_32];
        y[i,j] = s[7-i,j];
      }
    }
  }
})";
  EXPECT_NE(refusal(text).find("a barrier for s would stand inside a condition"), std::string::npos)
      << refusal(text);
}

TEST(VerifyTileProgram, RefusesSizesThatOverflow) {
  const std::string text =
      "kernel k(x: f32[M], out y: f32[M*M*M*M]) blocks 1 warps 1 { size M = 99999999999; }";
  EXPECT_NE(refusal(text).find("a size beyond 2^50"), std::string::npos) << refusal(text);
}

TEST(VerifyTileProgram, RefusesStructuresThatNoTextMakes) {
  TileProgram program = *parse_tile_program(kRows);
  const auto broken = [&](auto&& change) {
    TileProgram copy = *parse_tile_program(kRows);
    change(copy);
    const Status status = verify_tile_program(copy);
    return status.ok() ? std::string("accepted") : status.error().message;
  };
  const auto loop = [](TileProgram& p) -> TileLoop& { return *p.body[0].loop; };
  EXPECT_NE(broken([&](TileProgram& p) { loop(p).dims[0].step = 3; }).find("run over its step"),
            std::string::npos);
  EXPECT_NE(broken([&](TileProgram& p) { loop(p).dims[0].offset = 1000; }).find("another kind"),
            std::string::npos);
  EXPECT_NE(broken([&](TileProgram& p) {
              loop(p).body[1].statement.targets.clear();
            }).find("the wrong targets"),
            std::string::npos);
  EXPECT_NE(broken([&](TileProgram& p) {
              loop(p).body[1].statement.value = nullptr;
            }).find("an expression is missing"),
            std::string::npos);
  EXPECT_NE(broken([&](TileProgram& p) { p.parameters.push_back(0); }).find("named twice"),
            std::string::npos);
  EXPECT_NE(broken([&](TileProgram& p) {
              p.body.push_back(p.body[0]);
            }).find("two loops share the variable"),
            std::string::npos);
}

/// One read below two branches, whose conditions are nodes of their own and say the same.
TEST(VerifyTileProgram, SharedReadsAreGuardedByWhatTheirBranchesSay) {
  const auto refusal_where = [](const std::string& second) {
    auto program = parse_tile_program(
        "kernel k(x: f32[6], out y: f32[12]) blocks 12 warps 1 {\n"
        "  grid i in 12 {\n    y[i] = (i < 6 ? x[i] : 1.0) - (" +
        second + " ? x[i] : 2.0);\n  }\n}\n");
    EXPECT_TRUE(program.ok());
    ScalarRef& value = program->body[0].loop->body[0].statement.value;
    auto difference = std::make_shared<Scalar>(*value);
    auto branch = std::make_shared<Scalar>(*value->operands[1]);
    branch->operands[1] = value->operands[0]->operands[1];
    difference->operands[1] = branch;
    value = difference;
    const Status status = verify_tile_program(*program);
    return status.ok() ? "accepted" : status.error().message;
  };
  EXPECT_EQ(refusal_where("i < 6"), "accepted");
  EXPECT_NE(refusal_where("i < 7").find("along coordinate 0 of extent 6"), std::string::npos);
}

TEST(ParseTileProgram, EndsDeepNestsWithAnError) {
  const std::string head = "kernel k(x: f32[1], out y: f32[1]) blocks 1 warps 1 { i: 1; y[i] = ";
  EXPECT_NE(refusal(head + std::string(100000, '(')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(refusal(head + std::string(100000, '!')).find("nested too deeply"), std::string::npos);
  std::string sum = "x[i]", ternary = "x[i]";
  for (int i = 0; i < 100000; ++i) sum += "+x[i]";
  for (int i = 0; i < 100000; ++i) ternary += " < 1 ? x[i] : x[i]";
  EXPECT_NE(refusal(head + sum).find("too deep"), std::string::npos);
  EXPECT_NE(refusal(head + ternary).find("too deep"), std::string::npos);
  std::string loops = "kernel k(x: f32[1], out y: f32[1]) blocks 1 warps 1 {";
  for (int i = 0; i < 100000; ++i) loops += "if true {";
  EXPECT_NE(refusal(loops).find("nested too deeply"), std::string::npos);
  EXPECT_NE(refusal(head + "x[i*1125899906842624*1125899906842624]").find("grow beyond"),
            std::string::npos);
}

/// Outputs of more elements than are gone through one by one.
TEST(VerifyTileProgram, CountsTheElementsOfLargeOutputs) {
  constexpr std::string_view kCopy = R"(
kernel k(x: f32[50000003], out y: f32[50000003]) blocks P warps 1 {
  grid i in 50000003 step 64 { y[i] = x[i]; }
}
)";
  EXPECT_EQ(refusal(std::string(kCopy)), "accepted");
  expect_refused(kCopy, "grid i in 50000003", "grid i in 50000001",
                 "2 of 50000003 elements of y are not written");
  expect_refused(kCopy, "grid i in 50000003", "grid i in 50000004", "reads x[i] at [0, 50000003]");
  const std::string twice = changed(kCopy, "i in 50000003 step 64", "i in 50000002, k in 2");
  expect_refused(twice, "y[i] = x[i]", "y[i+k] = x[i+k]", "writes elements of y more than once");
}

/// Threads that differ in an axis that the box lacks hold copies; a CPU has none.
TEST(VerifyTileProgram, PlacesOnAGpuMayNameAxesOfCopies) {
  constexpr std::string_view kCopies = R"(
kernel k(x: f32[64,8], b: f32[64], out y: f32[64,8]) blocks 1 warps 4 gpu {
  n: 8;
  grid m in 64 step 16 {
    B[m] = exp(b[m]) @[m=WARP_4-LANE_4, n=LANE_8];
    y[m,n] = x[m,n] * B[m] @[m=WARP_4-LANE_4, n=LANE_8];
  }
}
)";
  EXPECT_EQ(refusal(std::string(kCopies)), "accepted");
  expect_refused(kCopies, "n=LANE_8", "n=LANE_16", "needs 64 lanes of 32");
}

}  // namespace
}  // namespace weft
