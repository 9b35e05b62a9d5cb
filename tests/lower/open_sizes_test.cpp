#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lower/lower.h"
#include "lower/lowering_key.h"
#include "tests/lower/lowered_program.h"
#include "tile/analysis/derive_scopes.h"
#include "tile/text/tile_text.h"

namespace weft::testing {
namespace {

TileProgram parsed(std::string_view text) {
  const Result<TileProgram> program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return program.ok() ? *program : TileProgram{};
}

/// Lowers the text once, with its sizes open, and runs that kernel at each binding.
class OpenKernel {
 public:
  explicit OpenKernel(std::string_view text) : program_(parsed(text)), kernel_(lower_text(text)) {}

  const KernelFunction& kernel() const { return kernel_; }

  void expect(const std::vector<int64_t>& sizes, const Inputs& inputs,
              const std::function<double(const Coordinates&)>& expected) const {
    TileProgram bound = program_;
    std::vector<int64_t> arguments;
    for (size_t v = 0; v < bound.vars.size(); ++v) {
      if (!is_open_size(program_, static_cast<TileVarId>(v))) continue;
      bound.vars[v].extent = sizes.at(arguments.size());
      arguments.push_back(bound.vars[v].extent);
    }
    ASSERT_EQ(kernel_.argument_count, static_cast<int32_t>(arguments.size()));
    const Result<ScopeAnalysis> scopes = derive_scopes(bound);
    ASSERT_TRUE(scopes.ok());
    const Result<KernelFunction> outline = kernel_outline(bound, *scopes, test_target());
    ASSERT_TRUE(outline.ok());
    KernelFunction kernel = kernel_;
    ASSERT_EQ(kernel.buffers.size(), outline->buffers.size());
    kernel.buffers = outline->buffers;
    for (size_t p = 0; p < kernel.phases.size(); ++p)
      kernel.phases[p].work_items = outline->phases[p].work_items;
    for (const int parts : {1, 3}) {
      const HostTensor got = run_kernel(bound, kernel, inputs, parts, arguments).at("y");
      Coordinates c(got.shape().size(), 0);
      for (int64_t i = 0; i < got.size(); ++i) {
        int64_t rest = i;
        for (size_t a = c.size(); a-- > 0;) {
          c[a] = rest % got.shape()[a];
          rest /= got.shape()[a];
        }
        const double e = expected(c);
        ASSERT_NEAR(got.at_double(i), e, 1e-5 * std::max(1.0, std::abs(e)))
            << ::testing::PrintToString(c) << " of " << ::testing::PrintToString(sizes) << ", "
            << parts << " parts";
      }
    }
  }

 private:
  TileProgram program_;
  KernelFunction kernel_;
};

TEST(LowerOpenSizes, RowsOfAContraction) {
  const OpenKernel open(R"(
    kernel k(a: f32[M,20], b: f32[20,40] layout {1,32,2} {0,1,20} {1,1,32}, out y: f32[M,40]) blocks P warps 1 {
      grid m in M step 6, n in 40 step 32 {
        seq k in 20 unroll 2 carry acc[m,n]: f32 = 0 @[m=REG_6, n=REG_2-VEC_16] {
          acc'[m,n] = acc[m,n] + a[m,k] * b[k,n] @[m=REG_6, n=REG_2-VEC_16];
        }
        y[m,n] = max(acc[m,n], 0) @[m=REG_6, n=REG_2-VEC_16];
      }
    })");
  for (const int64_t m : {1, 5, 6, 7, 12, 23, 64}) {
    const HostTensor a = sample(DType::kF32, {m, 20}, 1), b = sample(DType::kF32, {20, 40}, 2);
    open.expect({m}, {{"a", a}, {"b", b}}, [&](const Coordinates& c) {
      double s = 0;
      for (int64_t k = 0; k < 20; ++k) s += at(a, {c[0], k}) * at(b, {k, c[1]});
      return std::max(0.0, s);
    });
  }
}

TEST(LowerOpenSizes, BordersAndStridesOfAWindow) {
  const OpenKernel open(R"(
    kernel k(x: f32[5,W,16], w: f32[3,3,16], out y: f32[5,W,16]) blocks P warps 1 {
      grid h in 5, i in W step 4, c in 16 step 16 {
        seq a in max(0, 1-h) .. min(3, 6-h), b in 3 unroll 4 carry acc[i,c]: f32 = 0 @[i=REG_4, c=VEC_16] {
          acc'[i,c] = acc[i,c] + (i+b-1 >= 0 && i+b-1 < W ? x[h+a-1,i+b-1,c] : 0.0) * w[a,b,c] @[i=REG_4, c=VEC_16];
        }
        y[h,i,c] = acc[i,c] @[i=REG_4, c=VEC_16];
      }
    })");
  for (const int64_t n : {1, 2, 3, 4, 5, 8, 9, 12, 17, 31}) {
    const HostTensor x = sample(DType::kF32, {5, n, 16}, 3), w = sample(DType::kF32, {3, 3, 16}, 4);
    open.expect({n}, {{"x", x}, {"w", w}}, [&](const Coordinates& c) {
      double s = 0;
      for (int64_t a = 0; a < 3; ++a) {
        for (int64_t b = 0; b < 3; ++b) {
          const int64_t h = c[0] + a - 1, i = c[1] + b - 1;
          if (h < 0 || h >= 5 || i < 0 || i >= n) continue;
          s += at(x, {h, i, c[2]}) * at(w, {a, b, c[2]});
        }
      }
      return s;
    });
  }
}

TEST(LowerOpenSizes, TilesInsideAWindowAskNothing) {
  // Inside, each of the 4 rows is one load and one product for each of the 3 elements of the
  // window.
  const OpenKernel open(R"(
    kernel k(x: f32[W,16], w: f32[3,16], out y: f32[W,16]) blocks P warps 1 {
      grid i in W step 4, c in 16 step 16 {
        seq b in 3 unroll 4 carry acc[i,c]: f32 = 0 @[i=REG_4, c=VEC_16] {
          acc'[i,c] = acc[i,c] + (i+b-1 >= 0 && i+b-1 < W ? x[i+b-1,c] : 0.0) * w[b,c] @[i=REG_4, c=VEC_16];
        }
        y[i,c] = acc[i,c] @[i=REG_4, c=VEC_16];
      }
    })");
  // Three forms of the body: the left border (one element of 12 is outside), the inside, and the
  // rest, where 3 elements of a row are asked for both their bounds.
  EXPECT_EQ(count_instructions(open.kernel(), KernelOp::kFma), 11 + 12 + 3);
  EXPECT_EQ(count_instructions(open.kernel(), KernelOp::kFor), 3);
}

/// Rows that are filled up to a known length from one that is open: chunks of them begin at run
/// time, and where the open rows end, too.
TEST(LowerOpenSizes, KnownRowsEndWhereOpenOnesDo) {
  struct Case {
    const char *condition, *place;
    int64_t (*where)(int64_t);
  };
  for (const Case& c : {Case{"j-3 < N", "j-3", [](int64_t j) { return j - 3; }},
                        Case{"N > 2*j-3", "2*j-3", [](int64_t j) { return 2 * j - 3; }},
                        Case{"N-1-j >= 0", "N-1-j", [](int64_t) { return int64_t{-1}; }}}) {
    const bool mirrored = c.where(100) < 0;
    const OpenKernel open(std::string(R"(
    kernel k(x: f32[3,N], out y: f32[3,500]) blocks P warps 1 {
      grid i in 3, a in 8 {
        seq j in a*64 .. min(500, a*64+64) step 32 {
          y[i,j] = j < 3 ? 1.0 : )") +
                          c.condition + " ? x[i," + c.place + R"(] : 0.5 @[j=REG_2-VEC_16];
        }
      }
    })");
    for (const int64_t n : {1, 2, 29, 30, 61, 64, 200, 496, 497, 500, 600, 1003}) {
      const HostTensor x = sample(DType::kF32, {3, n}, 9);
      open.expect({n}, {{"x", x}}, [&](const Coordinates& at_j) {
        const int64_t j = at_j[1], place = mirrored ? n - 1 - j : c.where(j);
        return j < 3 ? 1.0 : place >= 0 && place < n ? at(x, {at_j[0], place}) : 0.5;
      });
    }
    // Two of the grid, the left border, and three of the rest, of which one asks for `n`.
    EXPECT_EQ(count_instructions(open.kernel(), KernelOp::kFor), 6) << c.condition;
  }
}

TEST(LowerOpenSizes, SingleElementsLeaveNoneOver) {
  const OpenKernel open(R"(
    kernel k(x: f32[B,6,32], out y: f32[B,6,32]) blocks P warps 1 {
      grid b in B, h in 6, i in 32 step 16 {
        y[b,h,i] = x[b,h,i] * 2.0 @[i=VEC_16];
      }
    })");
  for (const int64_t n : {1, 2, 5}) {
    const HostTensor x = sample(DType::kF32, {n, 6, 32}, 5);
    open.expect({n}, {{"x", x}}, [&](const Coordinates& c) { return 2 * at(x, c); });
  }
  EXPECT_EQ(count_instructions(open.kernel(), KernelOp::kFor), 3);
  EXPECT_EQ(count_instructions(open.kernel(), KernelOp::kStore), 1);
}

TEST(LowerOpenSizes, VectorsAlongAnOpenAxis) {
  const OpenKernel open(R"(
    kernel k(x: f32[3,N], s: f32[3], out y: f32[3,N]) blocks P warps 1 {
      grid i in 3, j in N step 32 {
        y[i,j] = x[i,j] * s[i] @[j=REG_2-VEC_16];
      }
    })");
  for (const int64_t n : {1, 15, 16, 17, 32, 33, 63, 64, 100}) {
    const HostTensor x = sample(DType::kF32, {3, n}, 5), s = sample(DType::kF32, {3}, 6);
    open.expect({n}, {{"x", x}, {"s", s}},
                [&](const Coordinates& c) { return at(x, c) * at(s, {c[0]}); });
  }
}

TEST(LowerOpenSizes, SumsOverAnOpenAxisAndTwoSizes) {
  const OpenKernel open(R"(
    kernel k(a: f32[M,K], b: f32[K,16], out y: f32[M,16]) blocks P warps 1 {
      n: 16;
      grid m in M step 3 {
        seq k in K unroll 4 carry acc[m,n]: f32 = 0 @[m=REG_3, n=VEC_16] {
          acc'[m,n] = acc[m,n] + a[m,k] * b[k,n] @[m=REG_3, n=VEC_16];
        }
        y[m,n] = acc[m,n] @[m=REG_3, n=VEC_16];
      }
    })");
  for (const auto& [m, k] : {std::pair<int64_t, int64_t>{1, 1}, {3, 4}, {8, 7}, {10, 33}}) {
    const HostTensor a = sample(DType::kF32, {m, k}, 7), b = sample(DType::kF32, {k, 16}, 8);
    open.expect({m, k}, {{"a", a}, {"b", b}}, [&](const Coordinates& c) {
      double s = 0;
      for (int64_t i = 0; i < k; ++i) s += at(a, {c[0], i}) * at(b, {i, c[1]});
      return s;
    });
  }
}

TEST(LoweringKey, SaysWhetherKernelsAreTheSame) {
  const auto key = [](int64_t rows, const char* tile, const char* name) {
    const std::string extent = rows == 0 ? "N" : std::to_string(rows);
    const TileProgram program =
        parsed("kernel k(" + std::string(name) + ": f32[" + extent + ",16], out y: f32[" + extent +
               ",16]) blocks P warps 1 { j: 16; grid i in " + extent + " step " + tile +
               " { y[i,j] = " + name + "[i,j] * 2.0 @[i=REG_" + tile + ", j=VEC_16]; } }");
    const Result<ScopeAnalysis> scopes = derive_scopes(program);
    EXPECT_TRUE(scopes.ok());
    return lowering_key(program, *scopes, test_target());
  };
  EXPECT_EQ(key(0, "4", "x"), key(0, "4", "other"));
  EXPECT_NE(key(0, "4", "x"), key(0, "8", "x"));
  EXPECT_NE(key(20, "4", "x"), key(24, "4", "x"));
  EXPECT_NE(key(20, "4", "x"), key(0, "4", "x"));
}

/// A value in scratch may lie behind one that needs none, because it lies in the output.
TEST(LoweringKey, SaysWhereScratchLies) {
  const auto key_and_kernel = [](int64_t rows) {
    const TileProgram open = parsed(R"(
      kernel k(x: f32[3,N,16], out y: f32[3,N,16]) blocks P warps 1 {
        grid b in 3, j in 16 step 16 {
          seq i in N carry m[j]: f32 = -inf @[j=VEC_16] {
            d[i,j] = x[b,i,j] * 2.0 @[j=VEC_16];
            m'[j] = max(m[j], d[i,j]) @[j=VEC_16];
          }
          seq i2 in N carry s[j]: f32 = 0.0 @[j=VEC_16] {
            e[i2,j] = exp(d[i2,j] - m[j]) @[j=VEC_16];
            s'[j] = s[j] + e[i2,j] @[j=VEC_16];
          }
          seq i3 in N {
            q[j] = e[i3,j] / s[j] @[j=VEC_16];
            r[j] = d[i3,j] + q[j] @[j=VEC_16];
            y[b,i3,j] = r[j] @[j=VEC_16];
          }
        }
      })");
    TileProgram bound = open;
    for (size_t v = 0; v < bound.vars.size(); ++v) {
      if (is_open_size(open, static_cast<TileVarId>(v))) bound.vars[v].extent = rows;
    }
    const Result<ScopeAnalysis> scopes = derive_scopes(bound);
    EXPECT_TRUE(scopes.ok());
    const Result<KernelFunction> kernel = lower_to_kernel(open, *scopes, test_target());
    EXPECT_TRUE(kernel.ok());
    const auto in_scratch = [](const KernelBuffer& b) {
      return b.kind == KernelBuffer::Kind::kScratch && b.scratch_offset > 0;
    };
    EXPECT_TRUE(kernel.ok() && std::ranges::any_of(kernel->buffers, in_scratch));
    return std::pair(lowering_key(open, *scopes, test_target()),
                     kernel.ok() ? kernel_digest(*kernel) : Hash128{});
  };
  const auto [key, digest] = key_and_kernel(18);
  const auto [other_key, other_digest] = key_and_kernel(48);
  EXPECT_NE(digest, other_digest);
  EXPECT_NE(key, other_key);
}

TEST(LowerOpenSizes, TransposesWhatABranchReads) {
  const OpenKernel open(R"(
    kernel k(x: f32[N,19], out y: f32[38,N]) blocks P warps 1 {
      grid i in 38 step 4, j in N step 4 {
        y[i,j] = i < 19 ? x[j,i] : 3 @[i=REG_4, j=VEC_4];
      }
    })");
  for (const int64_t n : {4, 8, 19}) {
    const HostTensor x = sample(DType::kF32, {n, 19}, 1);
    open.expect({n}, {{"x", x}},
                [&](const Coordinates& c) { return c[0] < 19 ? at(x, {c[1], c[0]}) : 3.0; });
  }
}

// Along a diagonal no two elements lie side by side, whatever the open stride is.
TEST(LowerOpenSizes, TransposesNoDiagonals) {
  const OpenKernel open(R"(
    kernel k(x: f32[4,N,8,4], out y: f32[4,8]) blocks P warps 1 {
      i: 4; j: 8;
      y[i,j] = x[i,0,j,i] @[i=REG_4, j=REG_2-VEC_4];
    })");
  const HostTensor x = sample(DType::kF32, {4, 5, 8, 4}, 1);
  open.expect({5}, {{"x", x}}, [&](const Coordinates& c) { return at(x, {c[0], 0, c[1], c[0]}); });
}

}  // namespace
}  // namespace weft::testing
