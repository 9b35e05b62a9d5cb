#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/lower/lowered_program.h"

namespace weft::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LowerElementwise, VectorLoopWithTail) {
  for (const int64_t n : {1, 15, 64, 77, 200, 1000}) {
    const HostTensor x = sample(DType::kF32, {n}, 1);
    expect_lowered(
        fmt::format("kernel k(x: f32[{0}], out y: f32[{0}]) blocks P warps 1 {{"
                    "seq i in {0} step 64 {{ y[i] = x[i] * 2 + 1 @[i=REG_4-VEC_16]; }} }}",
                    n),
        {{"x", x}}, "y", [&](const Coordinates& c) { return at(x, c) * 2 + 1; });
  }
}

TEST(LowerElementwise, GridChunksOfARow) {
  const HostTensor x = sample(DType::kF32, {1000}, 2);
  expect_lowered(R"(
    kernel k(x: f32[1000], out y: f32[1000]) blocks P warps 1 {
      grid c in 8 { seq i in c*128 .. min(c*128+128, 1000) step 64 {
        v[i] = abs(x[i]) @[i=REG_4-VEC_16];
        y[i] = v[i] + 1 @[i=REG_4-VEC_16];
      } }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) { return std::abs(at(x, c)) + 1; });
}

TEST(LowerElementwise, BroadcastOverThreeAxes) {
  const HostTensor x = sample(DType::kF32, {3, 5, 21}, 3), row = sample(DType::kF32, {21}, 4),
                   column = sample(DType::kF32, {5, 1}, 5), one = sample(DType::kF32, {}, 6);
  expect_lowered(R"(
    kernel k(x: f32[3,5,21], r: f32[21], c: f32[5,1], s: f32[], out y: f32[3,5,21]) blocks P warps 1 {
      grid a in 3, b in 5 { seq i in 21 step 32 {
        y[a,b,i] = (x[a,b,i] - r[i]) * c[b,0] + s[] @[i=REG_2-VEC_16];
      } }
    })",
                 {{"x", x}, {"r", row}, {"c", column}, {"s", one}}, "y", [&](const Coordinates& c) {
                   return (at(x, c) - at(row, {c[2]})) * at(column, {c[1], 0}) + at(one, {});
                 });
}

TEST(LowerElementwise, GridStepsWithTailsOnTwoAxes) {
  const HostTensor x = sample(DType::kF32, {11, 50}, 7);
  expect_lowered(R"(
    kernel k(x: f32[11,50], out y: f32[11,50]) blocks P warps 1 {
      grid i in 11 step 4, j in 50 step 32 {
        y[i,j] = -x[i,j] @[i=REG_4, j=REG_2-VEC_16];
      }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) { return -at(x, c); });
}

TEST(LowerElementwise, TransposesWithShuffles) {
  const std::string text = R"(
    kernel k(x: f32[40,35], out y: f32[35,40]) blocks P warps 1 {
      grid a in 35 step 16, j in 40 step 16 {
        y[a,j] = x[j,a] @[a=REG_16, j=VEC_16];
      }
    })";
  const HostTensor x = sample(DType::kF32, {40, 35}, 8);
  expect_lowered(text, {{"x", x}}, "y", [&](const Coordinates& c) { return at(x, {c[1], c[0]}); });
  // The interior reads rows and shuffles; only tails gather.
  EXPECT_GE(count_instructions(lower_text(text), KernelOp::kShuffle), 64);
}

/// Every second, third or fourth element: the vectors in which they lie, of which lanes are picked.
/// Nothing behind the last one is read, and those far apart are gathered.
TEST(LowerElementwise, PicksLanesThatLieAFewElementsApart) {
  for (const int stride : {2, 3, 4, 5}) {
    for (const int lanes : {4, 8, 16}) {
      const int n = 6 * lanes, from = stride - 1;
      const std::string text = fmt::format(
          "kernel k(x: f32[{0}], z: i8[{0}], out y: f32[{1}]) blocks P warps 1 {{\n"
          "  seq i in {1} step {2} {{ y[i] = x[{3}*i+{4}] + f32(z[{3}*i]) @[i=REG_2-VEC_{5}]; "
          "}} }}",
          (n - 1) * stride + 1 + from, n, 2 * lanes, stride, from, lanes);
      const HostTensor x = sample(DType::kF32, {(n - 1) * stride + 1 + from}, 9),
                       z = sample(DType::kI8, {(n - 1) * stride + 1 + from}, 10, -90, 90);
      expect_lowered(text, {{"x", x}, {"z", z}}, "y", [&](const Coordinates& c) {
        return at(x, {stride * c[0] + from}) + at(z, {stride * c[0]});
      });
      const KernelFunction kernel = lower_text(text);
      EXPECT_EQ(count_instructions(kernel, KernelOp::kGather) > 0, stride > 4) << text;
      EXPECT_EQ(count_instructions(kernel, KernelOp::kShuffle), stride > 4 ? 0 : 4 * stride)
          << text;
    }
  }
}

// Lanes divide words, which a vector has an instruction for; positions of 64 bits would be divided
// one by one.
TEST(LowerElementwise, DividesPositionsOfLanesAsWords) {
  const std::string text = R"(
    kernel k(x: f32[90], m: f32[9], out y: f32[90]) blocks P warps 1 {
      grid i in 90 step 16 {
        y[i] = x[i] - m[i/10] @[i=VEC_16];
      }
    })";
  const HostTensor x = sample(DType::kF32, {90}, 8), m = sample(DType::kF32, {9}, 9);
  expect_lowered(text, {{"x", x}, {"m", m}}, "y",
                 [&](const Coordinates& c) { return at(x, c) - at(m, {c[0] / 10}); });
  const std::string lowered = print(lower_text(text));
  EXPECT_NE(lowered.find(": i32x16 = apply div"), std::string::npos) << lowered;
  EXPECT_EQ(lowered.find(": i64x16 = apply div"), std::string::npos) << lowered;
}

// What a reshape in front of a gather leaves: row and column of a position. They lie as the
// position says where it is kept inside; and there no mask is needed, which is a branch a lane for
// most CPUs.
TEST(LowerElementwise, GathersByThePositionOfWhichTwoIndicesAreDigits) {
  const auto text = [](const std::string& position, int width) {
    return fmt::format(R"(
    kernel k(x: f32[5,7], n: i64[40], m: bool[40], out y: f32[40]) blocks P warps 1 {{
      seq i in 40 step 16 {{
        y[i] = m[i] ? x[i64({0}/{1}),i64({0}%{1})] : 2.0 @[i=VEC_16];
      }}
    }})",
                       position, width);
  };
  const HostTensor x = sample(DType::kF32, {5, 7}, 8), n = sample(DType::kI64, {40}, 9, -20, 60),
                   m = sample(DType::kBool, {40}, 10, 0, 2);
  const auto position = [&](const Coordinates& c) {
    return std::clamp<int64_t>(static_cast<int64_t>(at(n, c)), 0, 34);
  };
  for (const int width : {7, 6}) {
    const std::string kept = text("min(max(n[i], 0), 34)", width);
    expect_lowered(kept, {{"x", x}, {"n", n}, {"m", m}}, "y", [&](const Coordinates& c) {
      if (at(m, c) == 0) return 2.0;
      return at(x, {std::min<int64_t>(position(c) / width, 4), position(c) % width});
    });
    const std::string lowered = print(lower_text(kept));
    EXPECT_EQ(lowered.find(": i64x16 = apply rem") == std::string::npos, width == 7) << lowered;
    EXPECT_THAT(lowered, HasSubstr("= gather 0["));
    EXPECT_THAT(lowered, ::testing::ContainsRegex("gather 0.%[0-9]+.\n")) << "no mask";
  }
  const std::string open = print(lower_text(text("max(n[i], 0)", 7)));
  EXPECT_THAT(open, HasSubstr(": i64x16 = apply rem")) << "it may lie behind the last row";
}

// Rows that the select's other branch makes are not there to be loaded with those of this one: the
// executor refuses what lies beyond the 361 elements.
TEST(LowerElementwise, TransposesWhatABranchReads) {
  const HostTensor x = sample(DType::kF32, {19, 19}, 8);
  const std::string behind = R"(
    kernel k(x: f32[19,19], out y: f32[38,19]) blocks P warps 1 {
      grid i in 38 step 4 { seq j in 19 step 4 {
        y[i,j] = i < 19 ? x[j,i] : x[i-19,j] @[i=REG_4, j=VEC_4];
      } }
    })";
  expect_lowered(behind, {{"x", x}}, "y", [&](const Coordinates& c) {
    return c[0] < 19 ? at(x, {c[1], c[0]}) : at(x, {c[0] - 19, c[1]});
  });
  const std::string before = R"(
    kernel k(x: f32[19,19], out y: f32[20,19]) blocks P warps 1 {
      grid i in 20 step 4 { seq j in 19 step 4 {
        y[i,j] = i < 1 ? 7 : x[j,i-1] @[i=REG_4, j=VEC_4];
      } }
    })";
  expect_lowered(before, {{"x", x}}, "y",
                 [&](const Coordinates& c) { return c[0] < 1 ? 7 : at(x, {c[1], c[0] - 1}); });
  for (const std::string& text : {behind, before}) {
    const KernelFunction kernel = lower_text(text);
    EXPECT_GT(count_instructions(kernel, KernelOp::kShuffle), 0) << text;
    EXPECT_EQ(count_instructions(kernel, KernelOp::kGather), 0) << text;
  }
}

// A place may cover more than its axis has.
TEST(LowerElementwise, TransposesNoMoreThanTheAxisHas) {
  const HostTensor x = sample(DType::kF32, {19, 3}, 8);
  expect_lowered(R"(
    kernel k(x: f32[19,3], out y: f32[3,19]) blocks P warps 1 {
      i: 3;
      seq j in 19 step 4 { y[i,j] = x[j,i] @[i=REG_4, j=VEC_4]; }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) { return at(x, {c[1], c[0]}); });
}

TEST(LowerElementwise, ReadsALayoutOfPanels) {
  const HostTensor x = sample(DType::kF32, {10, 50}, 9);
  expect_lowered(R"(
    kernel k(x: f32[10,50] layout {1,32,2} {0,1,10} {1,1,32}, out y: f32[10,50] layout {1,1,50} {0,1,10}) blocks P warps 1 {
      grid i in 10 { grid j in 50 step 32 { y[i,j] = x[i,j] + 3 @[j=REG_2-VEC_16]; } }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) { return at(x, c) + 3; });
}

TEST(LowerElementwise, PadIsASelect) {
  const HostTensor x = sample(DType::kF32, {6, 30}, 10);
  const auto expected = [&](const Coordinates& c) {
    const int64_t i = c[0] - 2, j = c[1] - 3;
    return i >= 0 && i < 6 && j >= 0 && j < 30 ? at(x, {i, j}) : 7.0;
  };
  expect_lowered(R"(
    kernel k(x: f32[6,30], out y: f32[9,40]) blocks P warps 1 {
      grid i in 9 { seq j in 40 step 16 {
        y[i,j] = 0 <= i-2 && i-2 < 6 && 0 <= j-3 && j-3 < 30 ? x[i-2,j-3] : 7 @[j=VEC_16];
      } }
    })",
                 {{"x", x}}, "y", expected);
  expect_lowered(R"(
    kernel k(x: f32[6,30], out y: f32[9,40]) blocks P warps 1 {
      grid i in 9, j in 40 step 16 { y[i,j] = x[i-2,j-3] fill 7 @[j=VEC_16]; }
    })",
                 {{"x", x}}, "y", expected);
}

/// Rows that wrap around: what a row's condition excludes lies far outside, where a masked load
/// would find no memory.
TEST(LowerElementwise, WhatLiesFarOutsideIsNotLoaded) {
  const HostTensor x = sample(DType::kF32, {300, 192}, 15);
  const std::string text = R"(
    kernel k(x: f32[300,192], out y: f32[300,192]) blocks P warps 1 {
      grid i in 30, h in 10 { seq j in 192 step 16 {
        y[i*10+h,j] = i*10+h < 105 ? x[i*10+h+195,j] : x[i*10+h-105,j] @[j=VEC_16];
      } }
    })";
  expect_lowered(text, {{"x", x}}, "y", [&](const Coordinates& c) {
    return at(x, {c[0] < 105 ? c[0] + 195 : c[0] - 105, c[1]});
  });
  EXPECT_THAT(print(lower_text(text)), Not(HasSubstr("mask")));
}

TEST(LowerElementwise, ConcatIsAChainOfSelects) {
  const HostTensor a = sample(DType::kF32, {4, 19}, 11), b = sample(DType::kF32, {4, 23}, 12),
                   c = sample(DType::kF32, {4, 5}, 13);
  expect_lowered(R"(
    kernel k(a: f32[4,19], b: f32[4,23], c: f32[4,5], out y: f32[4,47]) blocks P warps 1 {
      grid i in 4 { seq j in 47 step 16 {
        y[i,j] = j < 19 ? a[i,j] : j < 42 ? b[i,j-19] : c[i,j-42] @[j=VEC_16];
      } }
    })",
                 {{"a", a}, {"b", b}, {"c", c}}, "y", [&](const Coordinates& p) {
                   if (p[1] < 19) return at(a, p);
                   return p[1] < 42 ? at(b, {p[0], p[1] - 19}) : at(c, {p[0], p[1] - 42});
                 });
}

/// Pieces that begin where vectors do: what all lanes have in common chooses the one piece that is
/// loaded.
TEST(LowerElementwise, PiecesOfWholeVectorsAreChosenByBranches) {
  const HostTensor a = sample(DType::kF32, {4, 48}, 11), b = sample(DType::kF32, {4, 16}, 12),
                   c = sample(DType::kF32, {4, 25}, 13);
  const auto text = [](const std::string& loop) {
    return "kernel k(a: f32[4,48], b: f32[4,16], c: f32[4,25], out y: f32[4,89]) blocks P warps 1 "
           "{\n  grid i in 4 { seq j in " +
           loop +
           " {\n    y[i,j] = j < 48 ? a[i,j] : j < 64 ? b[i,j-48] : c[i,j-64] @[j=VEC_16];\n"
           "  } }\n}";
  };
  expect_lowered(text("89 step 16"), {{"a", a}, {"b", b}, {"c", c}}, "y",
                 [&](const Coordinates& p) {
                   if (p[1] < 48) return at(a, p);
                   return p[1] < 64 ? at(b, {p[0], p[1] - 48}) : at(c, {p[0], p[1] - 64});
                 });
  const KernelFunction whole = lower_text(text("80 step 16"));
  EXPECT_EQ(count_instructions(whole, KernelOp::kRamp), 0) << print(whole);
  EXPECT_THAT(print(whole), Not(HasSubstr("mask")));
}

/// Signs that change within a vector, forwards and backwards.
TEST(LowerElementwise, PiecesThatBeginWithinAVectorAreNot) {
  const HostTensor a = sample(DType::kF32, {64}, 11), b = sample(DType::kF32, {64}, 12),
                   c = sample(DType::kF32, {64}, 13);
  for (const int64_t first : {15, 16, 17, 31, 32, 33}) {
    const std::string f = std::to_string(first);
    const auto expect = [&](const std::string& condition,
                            const std::function<bool(int64_t)>& holds) {
      expect_lowered(
          "kernel k(a: f32[64], b: f32[64], c: f32[64], out y: f32[64]) blocks P warps 1 "
          "{ seq i in 64 step 16 { y[i] = " +
              condition + " ? a[i] : i < 48 ? b[i] : c[i] @[i=VEC_16]; } }",
          {{"a", a}, {"b", b}, {"c", c}}, "y", [&](const Coordinates& p) {
            return holds(p[0]) ? at(a, p) : p[0] < 48 ? at(b, p) : at(c, p);
          });
    };
    expect("i < " + f, [&](int64_t i) { return i < first; });
    expect("i <= " + f, [&](int64_t i) { return i <= first; });
    expect("i > " + f, [&](int64_t i) { return i > first; });
    expect("i >= " + f, [&](int64_t i) { return i >= first; });
    expect(f + " - i > 0", [&](int64_t i) { return first - i > 0; });
    expect(f + " - i >= 0", [&](int64_t i) { return first - i >= 0; });
  }
}

TEST(LowerElementwise, ReshapeIsDivisionAndRemainder) {
  const HostTensor x = sample(DType::kF32, {6, 35}, 14);
  expect_lowered(R"(
    kernel k(x: f32[6,35], out y: f32[210]) blocks P warps 1 {
      grid i in 210 step 16 { y[i] = x[i / 35, i % 35] @[i=VEC_16]; }
    })",
                 {{"x", x}}, "y",
                 [&](const Coordinates& c) { return at(x, {c[0] / 35, c[0] % 35}); });
  expect_lowered(R"(
    kernel k(x: f32[6,35], out y: f32[42,5]) blocks P warps 1 {
      grid i in 42, j in 5 step 4 { y[i,j] = x[(i*5+j) / 35, (i*5+j) % 35] @[j=VEC_4]; }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) {
                   const int64_t f = c[0] * 5 + c[1];
                   return at(x, {f / 35, f % 35});
                 });
}

TEST(LowerElementwise, FlipsAndStrides) {
  const HostTensor x = sample(DType::kF32, {70}, 15);
  expect_lowered(R"(
    kernel k(x: f32[70], out y: f32[33]) blocks P warps 1 {
      seq i in 33 step 16 { y[i] = x[69 - 2*i] @[i=VEC_16]; }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) { return at(x, {69 - 2 * c[0]}); });
}

TEST(LowerElementwise, GathersAndClampsRuntimeIndices) {
  const HostTensor table = sample(DType::kF32, {9, 20}, 16);
  HostTensor index = sample(DType::kI64, {7}, 17, -3, 13);
  const auto row = [&](int64_t i) { return std::clamp<int64_t>(index.at_int(i), 0, 8); };
  expect_lowered(R"(
    kernel k(t: f32[9,20], i: i64[7], out y: f32[7,20]) blocks P warps 1 {
      grid n in 7 { seq j in 20 step 16 { y[n,j] = t[i[n],j] @[j=VEC_16]; } }
    })",
                 {{"t", table}, {"i", index}}, "y",
                 [&](const Coordinates& c) { return at(table, {row(c[0]), c[1]}); });
  // Along the vector: one index a lane.
  expect_lowered(R"(
    kernel k(t: f32[9,20], i: i64[7], out y: f32[20,7]) blocks P warps 1 {
      grid j in 20 { seq n in 7 step 4 { y[j,n] = t[i[n],j] @[n=VEC_4]; } }
    })",
                 {{"t", table}, {"i", index}}, "y",
                 [&](const Coordinates& c) { return at(table, {row(c[1]), c[0]}); });
}

TEST(LowerElementwise, MixesElementTypes) {
  const HostTensor a = sample(DType::kI64, {37}, 18, -50, 50), b = sample(DType::kF64, {37}, 19),
                   h = sample(DType::kF16, {37}, 20), m = sample(DType::kBool, {37}, 21),
                   u = sample(DType::kU8, {37}, 22, 0, 255);
  expect_lowered(R"(
    kernel k(a: i64[37], b: f64[37], h: f16[37], m: bool[37], u: u8[37], out y: f64[37]) blocks P warps 1 {
      seq i in 37 step 16 {
        s[i] = f64(a[i]) + b[i] @[i=VEC_16];
        y[i] = m[i] ? s[i] : f64(f32(h[i])) * f64(u[i]) @[i=VEC_16];
      }
    })",
                 {{"a", a}, {"b", b}, {"h", h}, {"m", m}, {"u", u}}, "y",
                 [&](const Coordinates& c) {
                   return at(m, c) != 0 ? at(a, c) + at(b, c) : at(h, c) * at(u, c);
                 });
  expect_lowered(R"(
    kernel k(a: i64[37], m: bool[37], out y: bool[37]) blocks P warps 1 {
      seq i in 37 step 16 { y[i] = a[i] > 3 && !m[i] @[i=VEC_16]; }
    })",
                 {{"a", a}, {"m", m}}, "y",
                 [&](const Coordinates& c) { return at(a, c) > 3 && at(m, c) == 0 ? 1.0 : 0.0; });
  expect_lowered(R"(
    kernel k(h: f16[37], out y: f16[37]) blocks P warps 1 {
      seq i in 37 step 16 { y[i] = h[i] + 1 @[i=VEC_16]; }
    })",
                 {{"h", h}}, "y", [&](const Coordinates& c) {
                   return half_to_float(float_to_half(static_cast<float>(at(h, c)) + 1.0F));
                 });
}

TEST(LowerElementwise, AnIotaFollowsTheLanes) {
  expect_lowered(R"(
    kernel k(x: f32[5,21], out y: f32[5,21], out z: i64[5,21]) blocks P warps 1 {
      grid i in 5 { seq j in 21 step 16 {
        y[i,j] = x[i,j] + f32(i*21+j) @[j=VEC_16];
        z[i,j] = i64(j*3-i) @[j=VEC_16];
      } }
    })",
                 {{"x", sample(DType::kF32, {5, 21}, 23)}}, "z",
                 [&](const Coordinates& c) { return static_cast<double>(c[1] * 3 - c[0]); });
}

TEST(LowerElementwise, ScalarsWithoutAnyLoop) {
  const HostTensor x = sample(DType::kF32, {}, 24);
  expect_lowered(R"(
    kernel k(x: f32[], out y: f32[1,1]) blocks P warps 1 { v = x[] * 3; y[0,0] = v + 1; })",
                 {{"x", x}}, "y", [&](const Coordinates&) { return at(x, {}) * 3 + 1; });
}

TEST(LowerElementwise, PackedNestsShareOneList) {
  const HostTensor x = sample(DType::kF32, {12, 20}, 25), u = sample(DType::kF32, {5, 33}, 26);
  const std::string text = R"(
    kernel k(x: f32[12,20], u: f32[5,33], out y: f32[12,20], out z: f32[5,33]) blocks P warps 1 {
      pack {
        share 12 { grid a in 12 { seq i in 20 step 16 { y[a,i] = x[a,i] + 1 @[i=VEC_16]; } } }
        share 5 { grid b in 5 { seq j in 33 step 16 { z[b,j] = u[b,j] * 2 @[j=VEC_16]; } } }
      }
    })";
  expect_lowered(text, {{"x", x}, {"u", u}}, "y",
                 [&](const Coordinates& c) { return at(x, c) + 1; });
  expect_lowered(text, {{"x", x}, {"u", u}}, "z",
                 [&](const Coordinates& c) { return at(u, c) * 2; });
  EXPECT_EQ(lower_text(text).phases.size(), 1U);
  EXPECT_EQ(lower_text(text).phases[0].work_items, 17);
}

}  // namespace
}  // namespace weft::testing
