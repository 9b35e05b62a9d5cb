#include <gtest/gtest.h>

#include <cmath>

#include "tests/lower/lowered_program.h"

namespace weft::testing {
namespace {

std::string replaced(std::string text,
                     const std::vector<std::pair<std::string, std::string>>& words) {
  for (const auto& [from, to] : words) {
    for (size_t p = text.find(from); p != std::string::npos; p = text.find(from, p + to.size())) {
      text.replace(p, from.size(), to);
    }
  }
  return text;
}

struct Matmul {
  int64_t m, n, k;
};

double dot(const HostTensor& a, const HostTensor& b, int64_t i, int64_t j,
           bool b_transposed = false) {
  double s = 0;
  for (int64_t k = 0; k < a.shape()[1]; ++k)
    s += at(a, {i, k}) * (b_transposed ? at(b, {j, k}) : at(b, {k, j}));
  return s;
}

TEST(LowerContraction, RegisterTilesWithAllTails) {
  for (const Matmul& s :
       {Matmul{8, 48, 32}, Matmul{13, 61, 37}, Matmul{1, 100, 5}, Matmul{20, 3, 9}}) {
    const HostTensor a = sample(DType::kF32, {s.m, s.k}, 1), b = sample(DType::kF32, {s.k, s.n}, 2),
                     bias = sample(DType::kF32, {s.n}, 3);
    const std::string text = replaced(R"(
      kernel k(a: f32[MM,KK], b: f32[KK,NN] layout {1,48,PANELS} {0,1,KK} {1,1,48}, c: f32[NN], out y: f32[MM,NN]) blocks P warps 1 {
        grid n in NN step 48, m in MM step 8 {
          seq k in KK unroll 2 carry acc[m,n]: f32 = 0 @[m=REG_8, n=REG_3-VEC_16] {
            acc'[m,n] = acc[m,n] + a[m,k] * b[k,n] @[m=REG_8, n=REG_3-VEC_16];
          }
          v[m,n] = acc[m,n] + c[n] @[m=REG_8, n=REG_3-VEC_16];
          y[m,n] = max(v[m,n], 0) @[m=REG_8, n=REG_3-VEC_16];
        }
      })",
                                      {{"MM", std::to_string(s.m)},
                                       {"KK", std::to_string(s.k)},
                                       {"NN", std::to_string(s.n)},
                                       {"PANELS", std::to_string((s.n + 47) / 48)}});
    expect_lowered(
        text, {{"a", a}, {"b", b}, {"c", bias}}, "y",
        [&](const Coordinates& c) {
          return std::max(0.0, dot(a, b, c[0], c[1]) + at(bias, {c[1]}));
        },
        1e-5);
  }
}

TEST(LowerContraction, BytesAreMultipliedFourAtATime) {
  for (const Matmul& s :
       {Matmul{8, 48, 32}, Matmul{13, 61, 37}, Matmul{1, 100, 5}, Matmul{20, 3, 9}}) {
    const HostTensor a = sample(DType::kU8, {s.m, s.k}, 1, 0, 256),
                     b = sample(DType::kI8, {s.k, s.n}, 2, -128, 128);
    const std::string text = replaced(R"(
      kernel k(a: u8[MM,KK], b: i8[KK,NN] layout {1,48,PANELS} {0,4,STEPS} {1,1,48} {0,1,4}, out y: i32[MM,NN]) blocks P warps 1 {
        grid n in NN step 48, m in MM step 8 {
          seq k in KK step 4 unroll 2 carry acc[m,n]: i32 = 0 @[m=REG_8, n=REG_3-VEC_16] {
            p[m,n] = sum[k] i32(a[m,k]) * i32(b[k,n]) by dot_u8s8 @[m=REG_8, n=REG_3-VEC_16, k=REG_4];
            acc'[m,n] = acc[m,n] + p[m,n] @[m=REG_8, n=REG_3-VEC_16];
          }
          y[m,n] = acc[m,n] @[m=REG_8, n=REG_3-VEC_16];
        }
      })",
                                      {{"MM", std::to_string(s.m)},
                                       {"KK", std::to_string(s.k)},
                                       {"NN", std::to_string(s.n)},
                                       {"STEPS", std::to_string((s.k + 3) / 4)},
                                       {"PANELS", std::to_string((s.n + 47) / 48)}});
    expect_lowered(
        text, {{"a", a}, {"b", b}}, "y",
        [&](const Coordinates& c) { return dot(a, b, c[0], c[1]); }, 0);
    const KernelFunction kernel = lower_text(text);
    EXPECT_GT(count_instructions(kernel, KernelOp::kDot), 0);
    EXPECT_EQ(count_instructions(kernel, KernelOp::kGather), 0);
  }
}

TEST(LowerContraction, WordsAreMultipliedTwoAtATime) {
  for (const Matmul& s :
       {Matmul{8, 48, 32}, Matmul{13, 61, 37}, Matmul{1, 100, 5}, Matmul{20, 3, 9}}) {
    const HostTensor a = sample(DType::kI16, {s.m, s.k}, 1, -300, 300),
                     b = sample(DType::kI8, {s.k, s.n}, 2, -128, 128);
    const std::string text = replaced(R"(
        kernel k(a: i16[MM,KK], b: i8[KK,NN] layout {1,48,PANELS} {0,2,STEPS} {1,1,48} {0,1,2}, out y: i32[MM,NN]) blocks P warps 1 {
          grid n in NN step 48, m in MM step 8 {
            seq k in KK step 2 unroll 2 carry acc[m,n]: i32 = 0 @[m=REG_8, n=REG_3-VEC_16] {
              p[m,n] = sum[k] i32(a[m,k]) * i32(b[k,n]) by dot_s16s8 @[m=REG_8, n=REG_3-VEC_16, k=REG_2];
              acc'[m,n] = acc[m,n] + p[m,n] @[m=REG_8, n=REG_3-VEC_16];
            }
            y[m,n] = acc[m,n] @[m=REG_8, n=REG_3-VEC_16];
          }
        })",
                                      {{"MM", std::to_string(s.m)},
                                       {"KK", std::to_string(s.k)},
                                       {"NN", std::to_string(s.n)},
                                       {"STEPS", std::to_string((s.k + 1) / 2)},
                                       {"PANELS", std::to_string((s.n + 47) / 48)}});
    expect_lowered(
        text, {{"a", a}, {"b", b}}, "y",
        [&](const Coordinates& c) { return dot(a, b, c[0], c[1]); }, 0);
    const KernelFunction kernel = lower_text(text);
    EXPECT_GT(count_instructions(kernel, KernelOp::kDot), 0);
    EXPECT_EQ(count_instructions(kernel, KernelOp::kGather), 0);
  }
}

TEST(LowerContraction, BFloat16IsMultipliedTwoAtATime) {
  for (const Matmul& s :
       {Matmul{8, 48, 32}, Matmul{13, 61, 37}, Matmul{1, 100, 5}, Matmul{20, 3, 9}}) {
    HostTensor a = sample(DType::kBF16, {s.m, s.k}, 1), b = sample(DType::kBF16, {s.k, s.n}, 2);
    for (HostTensor* t : {&a, &b}) {  // whose products' sums are exact
      for (int64_t i = 0; i < t->size(); ++i) t->set_double(i, std::round(t->at_double(i) * 16));
    }
    const std::string text = replaced(R"(
      kernel k(a: bf16[MM,KK], b: bf16[KK,NN] layout {1,48,PANELS} {0,2,STEPS} {1,1,48} {0,1,2}, out y: f32[MM,NN]) blocks P warps 1 {
        grid n in NN step 48, m in MM step 8 {
          seq k in KK step 2 unroll 2 carry acc[m,n]: f32 = 0 @[m=REG_8, n=REG_3-VEC_16] {
            p[m,n] = sum[k] f32(a[m,k]) * f32(b[k,n]) by dot_bf16 @[m=REG_8, n=REG_3-VEC_16, k=REG_2];
            acc'[m,n] = acc[m,n] + p[m,n] @[m=REG_8, n=REG_3-VEC_16];
          }
          y[m,n] = acc[m,n] @[m=REG_8, n=REG_3-VEC_16];
        }
      })",
                                      {{"MM", std::to_string(s.m)},
                                       {"KK", std::to_string(s.k)},
                                       {"NN", std::to_string(s.n)},
                                       {"STEPS", std::to_string((s.k + 1) / 2)},
                                       {"PANELS", std::to_string((s.n + 47) / 48)}});
    expect_lowered(
        text, {{"a", a}, {"b", b}}, "y",
        [&](const Coordinates& c) { return dot(a, b, c[0], c[1]); }, 0);
    const KernelFunction kernel = lower_text(text);
    EXPECT_GT(count_instructions(kernel, KernelOp::kDot), 0);
    EXPECT_EQ(count_instructions(kernel, KernelOp::kGather), 0);
  }
}

TEST(LowerContraction, PanelPackedInThePrefixOfANest) {
  const HostTensor a = sample(DType::kF32, {20, 37}, 4), b = sample(DType::kF32, {61, 37}, 5);
  const std::string text = R"(
    kernel k(a: f32[20,37], b: f32[61,37], out y: f32[20,61]) blocks P warps 1 {
      grid n in 61 step 48 {
        seq q in 37 step 16 { panel[q,n] = b[n,q] at scratch @[q=REG_16, n=REG_3-VEC_16]; }
        grid m in 20 step 8 {
          seq k in 37 unroll 2 carry acc[m,n]: f32 = 0 @[m=REG_8, n=REG_3-VEC_16] {
            acc'[m,n] = acc[m,n] + a[m,k] * panel[k,n] @[m=REG_8, n=REG_3-VEC_16];
          }
          y[m,n] = acc[m,n] @[m=REG_8, n=REG_3-VEC_16];
        }
      }
    })";
  expect_lowered(
      text, {{"a", a}, {"b", b}}, "y",
      [&](const Coordinates& c) { return dot(a, b, c[0], c[1], true); }, 1e-5);
  EXPECT_EQ(lower_text(text).phases[0].work_items, 6);
}

TEST(LowerContraction, TailsOfAPackedPanelAreTransposedInRegisters) {
  const HostTensor a = sample(DType::kF32, {6, 40}, 20), b = sample(DType::kF32, {29, 40}, 21);
  const std::string text = R"(
    kernel k(a: f32[6,40], b: f32[29,40], out y: f32[6,29]) blocks P warps 1 {
      m: 6;
      grid n in 29 step 32 {
        seq q in 40 step 16 { panel[q,n] = b[n,q] at scratch @[q=REG_16, n=REG_2-VEC_16]; }
        seq k in 40 carry acc[m,n]: f32 = 0 @[m=REG_6, n=REG_2-VEC_16] {
          acc'[m,n] = acc[m,n] + a[m,k] * panel[k,n] @[m=REG_6, n=REG_2-VEC_16];
        }
        y[m,n] = acc[m,n] @[m=REG_6, n=REG_2-VEC_16];
      }
    })";
  expect_lowered(
      text, {{"a", a}, {"b", b}}, "y",
      [&](const Coordinates& c) { return dot(a, b, c[0], c[1], true); }, 1e-5);
  EXPECT_EQ(count_instructions(lower_text(text), KernelOp::kGather), 0);
}

TEST(LowerContraction, ATailAroundTheReductionNeedsNoSelectInIt) {
  const HostTensor a = sample(DType::kF32, {5, 12}, 24), b = sample(DType::kF32, {12, 24}, 25);
  const std::string text = R"(
    kernel k(a: f32[5,12], b: f32[12,24] layout {1,32,1} {0,1,12} {1,1,32}, out y: f32[5,24]) blocks P warps 1 {
      grid n in 24 step 32, m in 5 step 4 {
        seq k in 12 carry acc[m,n]: f32 = 0 @[m=REG_4, n=REG_2-VEC_16] {
          acc'[m,n] = acc[m,n] + a[m,k] * b[k,n] @[m=REG_4, n=REG_2-VEC_16];
        }
        y[m,n] = acc[m,n] @[m=REG_4, n=REG_2-VEC_16];
      }
    })";
  expect_lowered(
      text, {{"a", a}, {"b", b}}, "y", [&](const Coordinates& c) { return dot(a, b, c[0], c[1]); },
      1e-5);
  EXPECT_EQ(print(lower_text(text)).find("select"), std::string::npos);
}

// Strips of a picture with its border: only the first and the last meet it.
TEST(LowerContraction, AWindowInStripsNeedsNoSelectInTheReduction) {
  const HostTensor a = sample(DType::kF32, {40, 8}, 26), b = sample(DType::kF32, {3, 8, 16}, 27);
  const std::string text = R"(
    kernel k(a: f32[40,8], b: f32[3,8,16], out y: f32[40,16]) blocks P warps 1 {
      n: 16;
      grid s in 40 step 10 {
        seq m in s-.s .. s+10-.s step 5 {
          seq t in 3 unroll, k in 8 carry acc[m,n]: f32 = 0 @[m=REG_5, n=VEC_16] {
            acc'[m,n] = acc[m,n] + (m+t-1 >= 0 && m+t-1 < 40 ? a[m+t-1,k] : 0) * b[t,k,n] @[m=REG_5, n=VEC_16];
          }
          y[m,n] = acc[m,n] @[m=REG_5, n=VEC_16];
        }
      }
    })";
  expect_lowered(
      text, {{"a", a}, {"b", b}}, "y",
      [&](const Coordinates& c) {
        double sum = 0;
        for (int64_t t = 0; t < 3; ++t) {
          const int64_t row = c[0] + t - 1;
          if (row < 0 || row >= 40) continue;
          for (int64_t k = 0; k < 8; ++k) sum += at(a, {row, k}) * at(b, {t, k, c[1]});
        }
        return sum;
      },
      1e-5);
  EXPECT_EQ(print(lower_text(text)).find("select"), std::string::npos);
}

TEST(LowerContraction, BatchesAndDoublePrecision) {
  const HostTensor a = sample(DType::kF64, {3, 7, 11}, 6), b = sample(DType::kF64, {3, 11, 19}, 7);
  expect_lowered(
      R"(
    kernel k(a: f64[3,7,11], b: f64[3,11,19], out y: f64[3,7,19]) blocks P warps 1 {
      grid z in 3, n in 19 step 16, m in 7 step 4 {
        seq k in 11 carry acc[m,n]: f64 = 0 @[m=REG_4, n=REG_2-VEC_8] {
          acc'[m,n] = acc[m,n] + a[z,m,k] * b[z,k,n] @[m=REG_4, n=REG_2-VEC_8];
        }
        y[z,m,n] = acc[m,n] @[m=REG_4, n=REG_2-VEC_8];
      }
    })",
      {{"a", a}, {"b", b}}, "y",
      [&](const Coordinates& c) {
        double s = 0;
        for (int64_t k = 0; k < 11; ++k) s += at(a, {c[0], c[1], k}) * at(b, {c[0], k, c[2]});
        return s;
      },
      1e-12);
}

TEST(LowerContraction, HalvesAccumulateInSinglePrecision) {
  const HostTensor a = sample(DType::kF16, {6, 21}, 8), b = sample(DType::kF16, {21, 40}, 9);
  expect_lowered(
      R"(
    kernel k(a: f16[6,21], b: f16[21,40], out y: f16[6,40]) blocks P warps 1 {
      grid n in 40 step 32, m in 6 step 6 {
        seq k in 21 carry acc[m,n]: f32 = 0 @[m=REG_6, n=REG_2-VEC_16] {
          acc'[m,n] = acc[m,n] + f32(a[m,k]) * f32(b[k,n]) @[m=REG_6, n=REG_2-VEC_16];
        }
        y[m,n] = f16(acc[m,n]) @[m=REG_6, n=REG_2-VEC_16];
      }
    })",
      {{"a", a}, {"b", b}}, "y", [&](const Coordinates& c) { return dot(a, b, c[0], c[1]); }, 1e-3);
}

TEST(LowerContraction, IntegerProductsOfBytes) {
  const HostTensor a = sample(DType::kU8, {5, 21}, 10, 0, 255),
                   b = sample(DType::kI8, {21, 20}, 11, -128, 127);
  expect_lowered(R"(
    kernel k(a: u8[5,21], b: i8[21,20], out y: i32[5,20]) blocks P warps 1 {
      grid n in 20 step 16, m in 5 step 4 {
        seq k in 21 carry acc[m,n]: i32 = 0 @[m=REG_4, n=VEC_16] {
          acc'[m,n] = acc[m,n] + (i32(a[m,k]) - 3) * i32(b[k,n]) @[m=REG_4, n=VEC_16];
        }
        y[m,n] = acc[m,n] @[m=REG_4, n=VEC_16];
      }
    })",
                 {{"a", a}, {"b", b}}, "y", [&](const Coordinates& c) {
                   double s = 0;
                   for (int64_t k = 0; k < 21; ++k) s += (at(a, {c[0], k}) - 3) * at(b, {k, c[1]});
                   return s;
                 });
}

struct Conv {
  int64_t h, w, ci, co, k, pad, stride, dilation, groups;
  int64_t out(int64_t n) const { return (n + 2 * pad - dilation * (k - 1) - 1) / stride + 1; }
};

double convolved(const HostTensor& x, const HostTensor& f, const Conv& s, const Coordinates& c) {
  const int64_t per_group = s.ci / s.groups, group = c[3] / (s.co / s.groups);
  double sum = 0;
  for (int64_t kh = 0; kh < s.k; ++kh) {
    for (int64_t kw = 0; kw < s.k; ++kw) {
      const int64_t h = c[1] * s.stride + kh * s.dilation - s.pad,
                    w = c[2] * s.stride + kw * s.dilation - s.pad;
      if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
      for (int64_t i = 0; i < per_group; ++i) {
        sum += at(x, {c[0], h, w, group * per_group + i}) * at(f, {c[3], i, kh, kw});
      }
    }
  }
  return sum;
}

std::vector<std::pair<std::string, std::string>> words_of(const Conv& s) {
  const int64_t per_group = s.ci / s.groups;
  return {{"HO", std::to_string(s.out(s.h))}, {"WO", std::to_string(s.out(s.w))},
          {"HH", std::to_string(s.h)},        {"WW", std::to_string(s.w)},
          {"CI", std::to_string(s.ci)},       {"CG", std::to_string(per_group)},
          {"CO", std::to_string(s.co)},       {"GO", std::to_string(s.co / s.groups)},
          {"KS", std::to_string(s.k)},        {"SS", std::to_string(s.stride)},
          {"DD", std::to_string(s.dilation)}, {"PP", std::to_string(s.pad)}};
}

const char* const kConv = R"(
  kernel k(x: f32[2,HH,WW,CI], f: f32[CO,CG,KS,KS], out y: f32[2,HO,WO,CO]) blocks P warps 1 {
    grid b in 2, o in CO step 16, h in HO, w in WO step 6 {
      seq kh in KS unroll, kw in KS unroll, c in CG carry acc[w,o]: f32 = 0 @[w=REG_6, o=VEC_16] {
        acc'[w,o] = acc[w,o] + (0 <= h*SS+kh*DD-PP && h*SS+kh*DD-PP < HH && 0 <= w*SS+kw*DD-PP && w*SS+kw*DD-PP < WW
            ? x[b, h*SS+kh*DD-PP, w*SS+kw*DD-PP, o/GO*CG+c] : 0) * f[o,c,kh,kw] @[w=REG_6, o=VEC_16];
      }
      y[b,h,w,o] = acc[w,o] @[w=REG_6, o=VEC_16];
    }
  })";

TEST(LowerContraction, ConvolutionsWithPaddingAsSelects) {
  for (const Conv& s : {Conv{9, 15, 5, 20, 3, 1, 1, 1, 1}, Conv{11, 14, 4, 16, 3, 1, 2, 1, 1},
                        Conv{12, 13, 3, 7, 3, 2, 1, 2, 1}, Conv{7, 9, 64, 32, 3, 1, 1, 1, 2},
                        Conv{5, 8, 6, 6, 1, 0, 1, 1, 1}, Conv{6, 7, 32, 32, 3, 1, 1, 1, 32},
                        Conv{7, 9, 64, 64, 3, 1, 1, 1, 16}, Conv{5, 7, 16, 32, 3, 1, 1, 1, 16},
                        Conv{5, 7, 20, 20, 3, 1, 1, 1, 5}, Conv{5, 8, 36, 36, 3, 1, 1, 1, 3}}) {
    const HostTensor x = sample(DType::kF32, {2, s.h, s.w, s.ci}, 12),
                     f = sample(DType::kF32, {s.co, s.ci / s.groups, s.k, s.k}, 13);
    expect_lowered(
        replaced(kConv, words_of(s)), {{"x", x}, {"f", f}}, "y",
        [&](const Coordinates& c) { return convolved(x, f, s, c); }, 1e-5);
  }
}

TEST(LowerContraction, ConvolutionWithRowsClippedByLoopBounds) {
  const Conv s{9, 30, 4, 20, 3, 1, 1, 1, 1};
  const HostTensor x = sample(DType::kF32, {2, s.h, s.w, s.ci}, 14),
                   f = sample(DType::kF32, {s.co, s.ci, s.k, s.k}, 15);
  const std::string text = replaced(R"(
    kernel k(x: f32[2,HH,WW,CI], f: f32[CO,CI,KS,KS] layout {0,16,2} {2,1,3} {3,1,3} {1,1,CI} {0,1,16}, out y: f32[2,HO,WO,CO]) blocks P warps 1 {
      grid b in 2, o in CO step 16, h in HO, w in WO step 6 {
        seq kh in max(0, 1-h) .. min(3, HH+1-h), kw in 3 unroll, c in CI unroll 2 carry acc[w,o]: f32 = 0 @[w=REG_6, o=VEC_16] {
          acc'[w,o] = acc[w,o] + (0 <= w+kw-1 && w+kw-1 < WW ? x[b,h+kh-1,w+kw-1,c] : 0) * f[o,c,kh,kw] @[w=REG_6, o=VEC_16];
        }
        y[b,h,w,o] = acc[w,o] @[w=REG_6, o=VEC_16];
      }
    })",
                                    words_of(s));
  expect_lowered(
      text, {{"x", x}, {"f", f}}, "y", [&](const Coordinates& c) { return convolved(x, f, s, c); },
      1e-5);
  // First, interior and last tiles along w: no lane or element mask anywhere in the interior.
  const KernelFunction kernel = lower_text(text);
  EXPECT_LT(count_instructions(kernel), 4000);
}

TEST(LowerContraction, VectorsThatAreNotFullShareTheElementsOfRows) {
  const auto text_for = [](const Conv& s) {
    return replaced(R"(
    kernel k(x: f32[2,HH,WW,CI], f: f32[CO,CI,KS,KS] layout {0,32,1} {2,1,3} {3,1,3} {1,1,CI} {0,1,32}, out y: f32[2,HO,WO,CO]) blocks P warps 1 {
      grid b in 2, h in HO, w in WO step 6, o in CO step 32 {
        seq kh in max(0, 1-h) .. min(3, HH+1-h), kw in 3 unroll, c in CI unroll 2 carry acc[w,o]: f32 = 0 @[w=REG_6, o=REG_2-VEC_16] {
          acc'[w,o] = acc[w,o] + (0 <= w+kw-1 && w+kw-1 < WW ? x[b,h+kh-1,w+kw-1,c] : 0) * f[o,c,kh,kw] @[w=REG_6, o=REG_2-VEC_16];
        }
        y[b,h,w,o] = acc[w,o] @[w=REG_6, o=REG_2-VEC_16];
      }
    })",
                    words_of(s));
  };
  const Conv s{9, 30, 4, 24, 3, 1, 1, 1, 1}, full{9, 30, 4, 32, 3, 1, 1, 1, 1};
  const HostTensor x = sample(DType::kF32, {2, s.h, s.w, s.ci}, 14),
                   f = sample(DType::kF32, {s.co, s.ci, s.k, s.k}, 15);
  expect_lowered(
      text_for(s), {{"x", x}, {"f", f}}, "y",
      [&](const Coordinates& c) { return convolved(x, f, s, c); }, 1e-5);
  EXPECT_EQ(count_instructions(lower_text(text_for(s)), KernelOp::kLoad),
            count_instructions(lower_text(text_for(full)), KernelOp::kLoad));
}

TEST(LowerContraction, AVectorAcrossGroupsIsLoadedOnceAndPermuted) {
  const Conv s{6, 11, 32, 32, 3, 1, 1, 1, 8};
  const HostTensor x = sample(DType::kF32, {2, s.h, s.w, s.ci}, 22),
                   f = sample(DType::kF32, {s.co, s.ci / s.groups, 3, 3}, 23);
  const std::string text = replaced(
      kConv,
      {{"f: f32[CO,CG,KS,KS]", "f: f32[CO,CG,KS,KS] layout {1,1,CG} {2,1,KS} {3,1,KS} {0,1,CO}"},
       {"c in CG", "c in CG unroll"}});
  const std::string sized = replaced(text, words_of(s));
  expect_lowered(
      sized, {{"x", x}, {"f", f}}, "y", [&](const Coordinates& c) { return convolved(x, f, s, c); },
      1e-5);
  const KernelFunction kernel = lower_text(sized);
  EXPECT_EQ(count_instructions(kernel, KernelOp::kGather), 0);
  EXPECT_GT(count_instructions(kernel, KernelOp::kShuffle), 0);
}

TEST(LowerContraction, DepthwiseRunsAlongChannels) {
  const HostTensor x = sample(DType::kF32, {7, 9, 20}, 16), f = sample(DType::kF32, {3, 3, 20}, 17);
  expect_lowered(
      R"(
    kernel k(x: f32[7,9,20], f: f32[3,3,20], out y: f32[7,9,20]) blocks P warps 1 {
      grid h in 7, c in 20 step 16, w in 9 step 4 {
        seq kh in 3 unroll, kw in 3 unroll carry acc[w,c]: f32 = 0 @[w=REG_4, c=VEC_16] {
          acc'[w,c] = acc[w,c] + (0 <= h+kh-1 && h+kh-1 < 7 && 0 <= w+kw-1 && w+kw-1 < 9 ? x[h+kh-1,w+kw-1,c] : 0) * f[kh,kw,c] @[w=REG_4, c=VEC_16];
        }
        y[h,w,c] = acc[w,c] @[w=REG_4, c=VEC_16];
      }
    })",
      {{"x", x}, {"f", f}}, "y",
      [&](const Coordinates& c) {
        double s = 0;
        for (int64_t i = 0; i < 9; ++i) {
          const int64_t h = c[0] + i / 3 - 1, w = c[1] + i % 3 - 1;
          if (h >= 0 && h < 7 && w >= 0 && w < 9)
            s += at(x, {h, w, c[2]}) * at(f, {i / 3, i % 3, c[2]});
        }
        return s;
      },
      1e-5);
}

TEST(LowerContraction, ChannelsFirstAlongTheRow) {
  const HostTensor x = sample(DType::kF32, {3, 6, 21}, 18),
                   f = sample(DType::kF32, {5, 3, 3, 3}, 19);
  expect_lowered(
      R"(
    kernel k(x: f32[3,6,21], f: f32[5,3,3,3], out y: f32[5,6,21]) blocks P warps 1 {
      grid h in 6, w in 21 step 16, o in 5 step 4 {
        seq c in 3, kh in 3 unroll, kw in 3 unroll carry acc[o,w]: f32 = 0 @[o=REG_4, w=VEC_16] {
          acc'[o,w] = acc[o,w] + f[o,c,kh,kw] * (0 <= h+kh-1 && h+kh-1 < 6 && 0 <= w+kw-1 && w+kw-1 < 21 ? x[c,h+kh-1,w+kw-1] : 0) @[o=REG_4, w=VEC_16];
        }
        y[o,h,w] = acc[o,w] @[o=REG_4, w=VEC_16];
      }
    })",
      {{"x", x}, {"f", f}}, "y",
      [&](const Coordinates& c) {
        double s = 0;
        for (int64_t i = 0; i < 27; ++i) {
          const int64_t ch = i / 9, kh = i / 3 % 3, kw = i % 3;
          const int64_t h = c[1] + kh - 1, w = c[2] + kw - 1;
          if (h >= 0 && h < 6 && w >= 0 && w < 21)
            s += at(x, {ch, h, w}) * at(f, {c[0], ch, kh, kw});
        }
        return s;
      },
      1e-5);
}

}  // namespace
}  // namespace weft::testing
