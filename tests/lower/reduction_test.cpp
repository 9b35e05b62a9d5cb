#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/lower/lowered_program.h"

namespace weft::testing {
namespace {

std::string with_size(std::string text, int64_t n) {
  for (size_t p = text.find("@N"); p != std::string::npos; p = text.find("@N")) {
    text.replace(p, 2, std::to_string(n));
  }
  return text;
}

TEST(LowerReduction, SoftmaxOfRows) {
  for (const int64_t n : {5, 64, 77, 130}) {
    const HostTensor x = sample(DType::kF32, {3, n}, 1, -4, 4);
    const auto expected = [&](const Coordinates& c) {
      double top = -1e30, sum = 0;
      for (int64_t j = 0; j < n; ++j) top = std::max(top, at(x, {c[0], j}));
      for (int64_t j = 0; j < n; ++j) sum += std::exp(at(x, {c[0], j}) - top);
      return std::exp(at(x, c) - top) / sum;
    };
    const std::string text = with_size(R"(
      kernel k(x: f32[3,@N], out y: f32[3,@N]) blocks P warps 1 {
        jj: 64; kk: 64;
        grid i in 3 {
          seq j in @N step 64 carry m[.j]: f32 = -inf @[j=REG_4-VEC_16] {
            m'[.j] = max(m[.j], x[i,j]) @[j=REG_4-VEC_16];
          }
          M = max[jj] m[jj] @[jj=REG_4-VEC_16];
          seq h in @N step 64 carry s[.h]: f32 = 0 @[h=REG_4-VEC_16] {
            E[h] = exp(x[i,h] - M) @[h=REG_4-VEC_16];
            s'[.h] = s[.h] + E[h] @[h=REG_4-VEC_16];
          }
          S = sum[kk] s[kk] @[kk=REG_4-VEC_16];
          seq l in @N step 64 { y[i,l] = E[l] / S @[l=REG_4-VEC_16]; }
        }
      })",
                                       n);
    expect_lowered(text, {{"x", x}}, "y", expected);
    EXPECT_EQ(lower_text(text).scratch_bytes, 0) << "E is kept over its sweep, in y";
  }
}

TEST(LowerReduction, FourRowsAtATime) {
  const HostTensor x = sample(DType::kF32, {10, 77}, 2, -4, 4);
  expect_lowered(R"(
    kernel k(x: f32[10,77], out y: f32[10]) blocks P warps 1 {
      jj: 32;
      grid i in 10 step 4 {
        seq j in 77 step 32 carry s[i,.j]: f32 = 0 @[i=REG_4, j=REG_2-VEC_16] {
          s'[i,.j] = s[i,.j] + x[i,j] @[i=REG_4, j=REG_2-VEC_16];
        }
        S[i] = sum[jj] s[i,jj] @[i=REG_4, jj=REG_2-VEC_16];
        y[i] = S[i] * 0.5 @[i=REG_4];
      }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) {
                   double s = 0;
                   for (int64_t j = 0; j < 77; ++j) s += at(x, {c[0], j});
                   return s * 0.5;
                 });
}

TEST(LowerReduction, LayerNormOfOddRows) {
  const int64_t n = 77;
  const HostTensor x = sample(DType::kF32, {5, n}, 3), g = sample(DType::kF32, {n}, 4),
                   b = sample(DType::kF32, {n}, 5);
  expect_lowered(
      R"(
    kernel k(x: f32[5,77], g: f32[77], b: f32[77], out y: f32[5,77]) blocks P warps 1 {
      jj: 32; kk: 32;
      grid i in 5 {
        seq j in 77 step 32 carry s[.j]: f32 = 0 @[j=REG_2-VEC_16] {
          s'[.j] = s[.j] + x[i,j] @[j=REG_2-VEC_16];
        }
        sr = sum[jj] s[jj] @[jj=REG_2-VEC_16];
        mean = sr / 77;
        seq h in 77 step 32 carry q[.h]: f32 = 0 @[h=REG_2-VEC_16] {
          d[h] = x[i,h] - mean @[h=REG_2-VEC_16];
          q'[.h] = q[.h] + d[h] * d[h] @[h=REG_2-VEC_16];
        }
        qr = sum[kk] q[kk] @[kk=REG_2-VEC_16];
        r = rsqrt(qr / 77 + 1e-5);
        seq l in 77 step 32 {
          y[i,l] = (x[i,l] - mean) * r * g[l] + b[l] @[l=REG_2-VEC_16];
        }
      }
    })",
      {{"x", x}, {"g", g}, {"b", b}}, "y",
      [&](const Coordinates& c) {
        double mean = 0, var = 0;
        for (int64_t j = 0; j < n; ++j) mean += at(x, {c[0], j}) / n;
        for (int64_t j = 0; j < n; ++j) {
          const double d = at(x, {c[0], j}) - mean;
          var += d * d / n;
        }
        return (at(x, c) - mean) / std::sqrt(var + 1e-5) * at(g, {c[1]}) + at(b, {c[1]});
      },
      1e-5);
}

TEST(LowerReduction, ColumnsWithTheVectorOnTheGrid) {
  const HostTensor x = sample(DType::kF32, {13, 45}, 6);
  expect_lowered(R"(
    kernel k(x: f32[13,45], out y: f32[45], out z: f32[13,45]) blocks P warps 1 {
      grid j in 45 step 32 {
        seq i in 13 carry s[j]: f32 = 0 @[j=REG_2-VEC_16] {
          s'[j] = s[j] + x[i,j] @[j=REG_2-VEC_16];
        }
        v[j] = s[j] / 13 @[j=REG_2-VEC_16];
        y[j] = v[j] @[j=REG_2-VEC_16];
        seq h in 13 { z[h,j] = x[h,j] - v[j] @[j=REG_2-VEC_16]; }
      }
    })",
                 {{"x", x}}, "z", [&](const Coordinates& c) {
                   double s = 0;
                   for (int64_t i = 0; i < 13; ++i) s += at(x, {i, c[1]});
                   return at(x, c) - s / 13;
                 });
}

TEST(LowerReduction, ColumnsKeptInScratch) {
  const HostTensor x = sample(DType::kF32, {13, 45}, 7);
  expect_lowered(R"(
    kernel k(x: f32[13,45], out y: f32[13,45]) blocks P warps 1 {
      grid j in 45 step 32 {
        seq i in 13 carry s[j]: f32 = 0 @[j=REG_2-VEC_16] {
          e[j,i] = exp(x[i,j]) @[j=REG_2-VEC_16];
          s'[j] = s[j] + e[j,i] @[j=REG_2-VEC_16];
        }
        seq h in 13 { y[h,j] = e[j,h] / s[j] @[j=REG_2-VEC_16]; }
      }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) {
                   double s = 0;
                   for (int64_t i = 0; i < 13; ++i) s += std::exp(at(x, {i, c[1]}));
                   return std::exp(at(x, c)) / s;
                 });
}

TEST(LowerReduction, TwoInnerAxesAndCombiners) {
  const HostTensor x = sample(DType::kF32, {2, 3, 4, 21}, 8);
  const auto over = [&](const Coordinates& c, double first, auto f) {
    double s = first;
    for (int64_t b = 0; b < 4; ++b) {
      for (int64_t j = 0; j < 21; ++j) s = f(s, at(x, {c[0], c[1], b, j}));
    }
    return s;
  };
  const auto text = [](const std::string& carry, const std::string& update,
                       const std::string& word) {
    return "kernel k(x: f32[2,3,4,21], out y: f32[2,3]) blocks P warps 1 { jj: 16;"
           "grid a in 2, c in 3 {"
           "seq b in 4, j in 21 step 16 carry s[.j]: f32 = " +
           carry + " @[j=VEC_16] { s'[.j] = " + update + " @[j=VEC_16]; } R = " + word +
           "[jj] s[jj] @[jj=VEC_16]; y[a,c] = R; } }";
  };
  expect_lowered(
      text("0", "s[.j] + x[a,c,b,j]", "sum"), {{"x", x}}, "y",
      [&](const Coordinates& c) { return over(c, 0, [](double a, double b) { return a + b; }); });
  expect_lowered(text("inf", "min(s[.j], x[a,c,b,j])", "min"), {{"x", x}}, "y",
                 [&](const Coordinates& c) {
                   return over(c, 1e30, [](double a, double b) { return std::min(a, b); });
                 });
  expect_lowered(
      text("1", "s[.j] * (x[a,c,b,j] + 2)", "prod"), {{"x", x}}, "y",
      [&](const Coordinates& c) {
        return over(c, 1, [](double a, double b) { return a * (b + 2); });
      },
      1e-5);
}

TEST(LowerReduction, WholeTilesInOneStatement) {
  const HostTensor x = sample(DType::kF32, {4, 37}, 9);
  expect_lowered(R"(
    kernel k(x: f32[4,37], out y: f32[4]) blocks P warps 1 {
      j: 37;
      grid i in 4 { S = sum[j] x[i,j] * x[i,j] @[j=REG_3-VEC_16]; y[i] = sqrt(S); }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) {
                   double s = 0;
                   for (int64_t j = 0; j < 37; ++j) s += at(x, {c[0], j}) * at(x, {c[0], j});
                   return std::sqrt(s);
                 });
}

// A loop of a length that is known runs whole tiles and one of the rest, wherever it begins.
TEST(LowerLoops, OfKnownLengthsAskNothingAboutTheirEnds) {
  const HostTensor x = sample(DType::kF32, {80, 32}, 4);
  const char* text = R"(
    kernel k(x: f32[80,32], out y: f32[80,32]) blocks P warps 1 {
      grid i in 80 step 20 {
        seq r in i-.i .. i-.i+20 step 6, j in 32 step 16 {
          y[r,j] = x[r,j] * 2 @[r=REG_6, j=VEC_16];
        }
      }
    })";
  expect_lowered(text, {{"x", x}}, "y", [&](const Coordinates& c) { return 2 * at(x, c); });
  const std::string kernel = print(lower_text(text));
  EXPECT_EQ(kernel.find("apply rem"), std::string::npos) << kernel;
  EXPECT_EQ(kernel.find("masked"), std::string::npos) << kernel;
}

TEST(LowerReduction, ArgMaxCarriesTwoValues) {
  HostTensor x = sample(DType::kF32, {4, 77}, 10);
  x.set_double(77 + 20, x.at_double(77 + 5));  // a tie, perhaps not of the best
  x.set_double(2 * 77 + 40, 9);
  x.set_double(2 * 77 + 7, 9);  // a tie of the best: the first counts
  x.set_double(3 * 77 + 50, std::numeric_limits<double>::quiet_NaN());
  expect_lowered(R"(
    kernel k(x: f32[4,77], out y: i64[4]) blocks P warps 1 {
      jj: 32;
      grid i in 4 {
        seq j in 77 step 32 carry m[.j]: f32 = -inf @[j=REG_2-VEC_16],
                                  p[.j]: i64 = 9223372036854775807 @[j=REG_2-VEC_16] {
          v[j] = x[i,j] @[j=REG_2-VEC_16];
          b[.j] = (v[j] > m[.j] || p[.j] == 9223372036854775807) && !is_nan(m[.j]) || is_nan(v[j]) && !is_nan(m[.j]) @[j=REG_2-VEC_16];
          p'[.j] = b[.j] ? i64(j) : p[.j] @[j=REG_2-VEC_16];
          m'[.j] = b[.j] ? v[j] : m[.j] @[j=REG_2-VEC_16];
        }
        M = max[jj] m[jj] @[jj=REG_2-VEC_16];
        r = min[jj] (m[jj] == M || is_nan(m[jj]) && is_nan(M) ? p[jj] : 9223372036854775807) @[jj=REG_2-VEC_16];
        y[i] = r;
      }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) {
                   int64_t best = 0;
                   for (int64_t j = 1; j < 77; ++j) {
                     if (std::isnan(at(x, {c[0], best}))) break;
                     if (std::isnan(at(x, {c[0], j})) || at(x, {c[0], j}) > at(x, {c[0], best}))
                       best = j;
                   }
                   return static_cast<double>(best);
                 });
}

TEST(LowerReduction, TwoPhasesOverAWorkspace) {
  const HostTensor x = sample(DType::kF32, {64, 45}, 11);
  const std::string text = R"(
    kernel k(x: f32[64,45], out y: f32[45]) blocks P warps 1 {
      grid b in 8 { grid j in 45 step 16 {
        seq i in b*8 .. b*8+8 carry s[j]: f32 = 0 @[j=VEC_16] {
          s'[j] = s[j] + x[i,j] @[j=VEC_16];
        }
        p[b,j] = s[j] @[j=VEC_16];
      } }
      grid c in 45 step 16 {
        seq t in 8 carry q[c]: f32 = 0 @[c=VEC_16] { q'[c] = q[c] + p[t,c] @[c=VEC_16]; }
        y[c] = q[c] @[c=VEC_16];
      }
    })";
  expect_lowered(text, {{"x", x}}, "y", [&](const Coordinates& c) {
    double s = 0;
    for (int64_t i = 0; i < 64; ++i) s += at(x, {i, c[0]});
    return s;
  });
  const KernelFunction kernel = lower_text(text);
  ASSERT_EQ(kernel.phases.size(), 2U);
  EXPECT_EQ(kernel.phases[0].work_items, 24);
  EXPECT_EQ(kernel.phases[1].work_items, 3);
}

TEST(LowerReduction, IntegersAndBools) {
  const HostTensor x = sample(DType::kI64, {3, 37}, 12, -100, 100),
                   m = sample(DType::kBool, {3, 37}, 13);
  expect_lowered(R"(
    kernel k(x: i64[3,37], m: bool[3,37], out y: i64[3], out z: bool[3]) blocks P warps 1 {
      jj: 16; kk: 16;
      grid i in 3 {
        seq j in 37 step 16 carry s[.j]: i64 = 0 @[j=VEC_16], a[.j]: bool = false @[j=VEC_16] {
          s'[.j] = s[.j] + x[i,j] @[j=VEC_16];
          a'[.j] = a[.j] || m[i,j] && x[i,j] > 90 @[j=VEC_16];
        }
        S = sum[jj] s[jj] @[jj=VEC_16];
        A = max[kk] a[kk] @[kk=VEC_16];
        y[i] = S; z[i] = A;
      }
    })",
                 {{"x", x}, {"m", m}}, "y", [&](const Coordinates& c) {
                   double s = 0;
                   for (int64_t j = 0; j < 37; ++j) s += at(x, {c[0], j});
                   return s;
                 });
}

/// Scratch of a kernel that keeps E over a sweep and then runs `last`.
int64_t scratch_with(const std::string& last, const std::string& second_output = "",
                     const Target& target = test_target()) {
  return lower_text(R"(
    kernel k(x: f32[3,64], out y: f32[3,64])" +
                        second_output + R"() blocks P warps 1 {
      kk: 32;
      grid i in 3 {
        seq h in 64 step 32 carry s[.h]: f32 = 0 @[h=REG_2-VEC_16] {
          E[h] = exp(x[i,h]) @[h=REG_2-VEC_16];
          s'[.h] = s[.h] + E[h] @[h=REG_2-VEC_16];
        }
        S = sum[kk] s[kk] @[kk=REG_2-VEC_16];
        )" + last + "} }",
                    target)
      .scratch_bytes;
}

TEST(LowerReduction, ValuesLieInAnOutputUntilItIsStored) {
  const std::string store = "y[i,l] = E[l] / S @[l=REG_2-VEC_16];";
  EXPECT_EQ(scratch_with("seq l in 64 step 32 { " + store + " }"), 0);
  EXPECT_EQ(scratch_with("seq l in 64 step 32 { d[l] = E[l] / S @[l=REG_2-VEC_16]; "
                         "y[i,l] = d[l] @[l=REG_2-VEC_16]; }"),
            0);
  EXPECT_GT(scratch_with("seq l in 64 step 16 { y[i,l] = E[l] / S @[l=VEC_16]; }"), 0)
      << "other tiles";
  EXPECT_GT(scratch_with("seq l in 64 step 32 { " + store +
                             " } "
                             "seq m in 64 step 32 { z[i,m] = i64(E[m]) @[m=REG_2-VEC_16]; }",
                         ", out z: i64[3,64]"),
            0)
      << "read after y is stored";
  Target small = test_target();
  small.l3_bytes = 1024;
  EXPECT_GT(scratch_with("seq l in 64 step 32 { " + store + " }", "", small), 0)
      << "an output that goes past the caches";
}

TEST(LowerReduction, ARowReversedInItsOutputIsRight) {
  const HostTensor x = sample(DType::kF32, {3, 64}, 5, -2, 2);
  expect_lowered(R"(
    kernel k(x: f32[3,64], out y: f32[3,64]) blocks P warps 1 {
      kk: 32;
      grid i in 3 {
        seq h in 64 step 32 carry s[.h]: f32 = 0 @[h=REG_2-VEC_16] {
          E[h] = exp(x[i,h]) @[h=REG_2-VEC_16];
          s'[.h] = s[.h] + E[h] @[h=REG_2-VEC_16];
        }
        S = sum[kk] s[kk] @[kk=REG_2-VEC_16];
        seq l in 64 step 32 { y[i,63-l] = E[l] / S @[l=REG_2-VEC_16]; }
      }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) {
                   double sum = 0;
                   for (int64_t j = 0; j < 64; ++j) sum += std::exp(at(x, {c[0], j}));
                   return std::exp(at(x, {c[0], 63 - c[1]})) / sum;
                 });
}

/// Whether lowering takes the exponent in the place of `$` for one that is not positive.
bool shortens_exponent(const std::string& sweep) {
  const std::string text = R"(
    kernel k(x: f32[3,64], z: f32[3,64], out y: f32[3,64]) blocks P warps 1 {
      jj: 32;
      grid i in 3 {
        seq j in 64 step 32 carry m[.j]: f32 = -inf @[j=REG_2-VEC_16] {
          t[j] = x[i,j] * 2 + z[0,j] @[j=REG_2-VEC_16];
          m'[.j] = max(m[.j], t[j]) @[j=REG_2-VEC_16];
          )" + (sweep.find("m[") != std::string::npos ? sweep : "") +
                           R"(
        }
        M = max[jj] m[jj] @[jj=REG_2-VEC_16];
        N = M;
        )" + (sweep.find("m[") != std::string::npos ? "" : sweep) +
                           "} }";
  return print(lower_text(text)).find("nonpositive") != std::string::npos;
}

TEST(LowerReduction, ShorterExponentialOnlyWhereTheMaximumIsSubtracted) {
  const auto sweep = [](const std::string& body, const std::string& bounds = "64") {
    return "seq h in " + bounds + " step 32 { " + body + " }";
  };
  const std::string at = " @[h=REG_2-VEC_16];";
  EXPECT_TRUE(shortens_exponent(sweep("y[i,h] = exp(t[h] - M)" + at)));
  EXPECT_TRUE(shortens_exponent(sweep("y[i,h] = exp(t[h] - N)" + at)));
  EXPECT_TRUE(shortens_exponent(sweep("d[h] = t[h] - N" + at + "y[i,h] = exp(d[h])" + at)));
  EXPECT_TRUE(
      shortens_exponent(sweep("u[h] = x[i,h] * 2 + z[0,h]" + at + "y[i,h] = exp(u[h] - N)" + at)));
  EXPECT_FALSE(shortens_exponent(sweep("y[i,h] = exp(x[i,h] - M)" + at))) << "another value";
  EXPECT_FALSE(shortens_exponent(sweep("y[i,h] = exp(x[i,h] * 2 + z[1,h] - M)" + at)))
      << "another row";
  EXPECT_FALSE(shortens_exponent("y[i,j] = exp(t[j] - m[.j]) @[j=REG_2-VEC_16];"))
      << "the maximum of the iterations before";
}

/// In a loop that carries a maximum, behind its update by that of the iteration's own elements.
TEST(LowerReduction, ShorterExponentialBehindTheUpdate) {
  const auto shortens = [](const std::string& shift, const std::string& of = "x[i,j]",
                           const std::string& update = "m' = max(m, t);") {
    const KernelFunction kernel = lower_text(R"(
      kernel k(x: f32[3,64], z: f32[3,64], out y: f32[3,64], out w: f32[3]) blocks P warps 1 {
        grid i in 3 {
          seq j in 64 step 32 carry m: f32 = -inf {
            t = max[j] x[i,j] @[j=REG_2-VEC_16];
            )" + update + " n = " + shift +
                                             R"(;
            y[i,j] = exp()" + of + R"( - n) @[j=REG_2-VEC_16];
          }
          w[i] = m;
        }
      })");
    return print(kernel).find("nonpositive") != std::string::npos;
  };
  EXPECT_TRUE(shortens("m'"));
  EXPECT_TRUE(shortens("m' == -inf ? 0.0 : m'"));
  EXPECT_FALSE(shortens("m")) << "the maximum of the iterations before";
  EXPECT_FALSE(shortens("m' == -inf ? -inf : m'")) << "-inf less -inf";
  EXPECT_FALSE(shortens("m' == 0.0 ? 1.0 : m'")) << "another case";
  EXPECT_FALSE(shortens("m'", "z[i,j]")) << "another value";
  const std::string kept = "v = max(m, t); m' = v;";
  EXPECT_TRUE(shortens("v", "x[i,j]", kept));
  EXPECT_TRUE(shortens("v == -inf ? 0.0 : v", "x[i,j]", kept));
  EXPECT_TRUE(shortens("v", "m", kept)) << "the larger of both is no less than the one before";
  EXPECT_FALSE(shortens("v", "z[i,j]", kept)) << "another value";
  EXPECT_FALSE(shortens("v", "x[i,j]", "v = min(m, t); m' = max(m, v);")) << "the smaller of both";
  EXPECT_FALSE(shortens("v", "x[i,j]", "v = max(m, t) - 1.0; m' = v;")) << "less than the larger";
}

TEST(LowerReduction, ShorterExponentialOfHalves) {
  const KernelFunction kernel = lower_text(R"(
    kernel k(x: f16[3,64], out y: f16[3,64]) blocks P warps 1 {
      jj: 32;
      grid i in 3 {
        seq j in 64 step 32 carry m[.j]: f32 = -inf @[j=REG_2-VEC_16] {
          m'[.j] = max(m[.j], f32(x[i,j])) @[j=REG_2-VEC_16];
        }
        r = max[jj] m[jj] @[jj=REG_2-VEC_16];
        M = f16(r);
        seq h in 64 step 32 { y[i,h] = exp(x[i,h] - M) @[h=REG_2-VEC_16]; }
      }
    })");
  EXPECT_NE(print(kernel).find("nonpositive"), std::string::npos);
}

}  // namespace
}  // namespace weft::testing
