#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/lower/lowered_program.h"

namespace weft::testing {
namespace {

int64_t barriers(const KernelFunction& kernel) {
  return count_instructions(kernel, KernelOp::kBarrier);
}

double softmax_at(const HostTensor& x, const Coordinates& c) {
  double top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < x.shape()[1]; ++j) top = std::max(top, at(x, {c[0], j}));
  for (int64_t j = 0; j < x.shape()[1]; ++j) sum += std::exp(at(x, {c[0], j}) - top);
  return std::exp(at(x, c) - top) / sum;
}

TEST(LowerGpu, ElementwiseInVectorsWithATail) {
  const HostTensor x = sample(DType::kF32, {1003}, 1);
  const std::string text = R"(
    kernel k(x: f32[1003], out y: f32[1003]) blocks 4 warps 2 gpu {
      grid i in 1003 step 256 {
        v[i] = x[i] * 2 + 1 @[i=WARP_2-LANE_32-VEC_4];
        y[i] = v[i] @[i=WARP_2-LANE_32-VEC_4];
      }
    })";
  expect_lowered(text, {{"x", x}}, "y", [&](const Coordinates& c) { return at(x, c) * 2 + 1; });
  const KernelFunction kernel = lower_text(text);
  EXPECT_EQ(kernel.blocks, 4);
  EXPECT_EQ(barriers(kernel), 0);
  EXPECT_EQ(kernel.shared_bytes, 0);
}

TEST(LowerGpu, RowsOnOneWarpReduceByShuffles) {
  const HostTensor x = sample(DType::kF32, {7, 100}, 2, -3, 3);
  const std::string text = R"(
    kernel softmax(x: f32[7,100], out y: f32[7,100]) blocks 2 warps 4 gpu {
      j: 100;
      grid i in 7 step 4 {
        X[i,j] = x[i,j] @[i=WARP_4, j=LANE_32-VEC_4];
        M[i] = max[j] X[i,j];
        E[i,j] = exp(X[i,j] - M[i]);
        S[i] = sum[j] E[i,j];
        y[i,j] = E[i,j] / S[i];
      }
    })";
  expect_lowered(text, {{"x", x}}, "y", [&](const Coordinates& c) { return softmax_at(x, c); });
  const KernelFunction kernel = lower_text(text);
  EXPECT_EQ(barriers(kernel), 0);
  EXPECT_EQ(count_instructions(kernel, KernelOp::kWarpXor), 10);
}

TEST(LowerGpu, ShortRowsShareAWarp) {
  const HostTensor x = sample(DType::kF32, {21, 12}, 3, -3, 3);
  expect_lowered(R"(
    kernel softmax(x: f32[21,12], out y: f32[21,12]) blocks 2 warps 2 gpu {
      j: 12;
      grid i in 21 step 16 {
        X[i,j] = x[i,j] @[i=WARP_2-LANE_8, j=LANE_4-VEC_4];
        M[i] = max[j] X[i,j];
        E[i,j] = exp(X[i,j] - M[i]);
        S[i] = sum[j] E[i,j];
        y[i,j] = E[i,j] / S[i];
      }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) { return softmax_at(x, c); });
}

TEST(LowerGpu, RowsOnABlockReduceThroughSharedMemory) {
  const HostTensor x = sample(DType::kF32, {3, 1000}, 4, -3, 3);
  const std::string text = R"(
    kernel softmax(x: f32[3,1000], out y: f32[3,1000]) blocks 3 warps 4 gpu {
      j: 1000;
      grid i in 3 {
        X[j] = x[i,j] @[j=REG_2-WARP_4-LANE_32-VEC_4];
        M = max[j] X[j];
        E[j] = exp(X[j] - M);
        S = sum[j] E[j];
        y[i,j] = E[j] / S;
      }
    })";
  expect_lowered(text, {{"x", x}}, "y", [&](const Coordinates& c) { return softmax_at(x, c); });
  const KernelFunction kernel = lower_text(text);
  EXPECT_EQ(barriers(kernel), 2);  // one a reduction: each has its own memory
  EXPECT_EQ(kernel.shared_bytes, 32);
}

TEST(LowerGpu, SweepsNeedABarrierBeforeMemoryIsWrittenAgain) {
  const HostTensor x = sample(DType::kF32, {5, 700}, 5);
  const std::string text = R"(
    kernel k(x: f32[5,700], out y: f32[5]) blocks 1 warps 2 gpu {
      jj: 256;
      grid i in 5 {
        seq j in 700 step 256 carry s[.j]: f32 = 0 @[j=WARP_2-LANE_32-VEC_4] {
          s'[.j] = s[.j] + x[i,j];
        }
        S = sum[jj] s[jj];
        y[i] = S;
      }
    })";
  expect_lowered(
      text, {{"x", x}}, "y",
      [&](const Coordinates& c) {
        double sum = 0;
        for (int64_t j = 0; j < 700; ++j) sum += at(x, {c[0], j});
        return sum;
      },
      1e-5);
  EXPECT_EQ(barriers(lower_text(text)), 2);
}

TEST(LowerGpu, ColumnsKeepOneElementALane) {
  const HostTensor x = sample(DType::kF32, {50, 72}, 6);
  expect_lowered(
      R"(
    kernel k(x: f32[50,72], out y: f32[72]) blocks 1 warps 4 gpu {
      ii: 4;
      grid j in 72 step 128 {
        seq i in 50 step 4 carry s[.i,j]: f32 = 0 @[i=WARP_4, j=LANE_32-VEC_4] {
          s'[.i,j] = s[.i,j] + x[i,j];
        }
        S[j] = sum[ii] s[ii,j];
        y[j] = S[j];
      }
    })",
      {{"x", x}}, "y",
      [&](const Coordinates& c) {
        double sum = 0;
        for (int64_t i = 0; i < 50; ++i) sum += at(x, {i, c[0]});
        return sum;
      },
      1e-5);
}

/// A product through tiles in shared memory, with tails in every axis.
TEST(LowerGpu, ContractsTilesInSharedMemory) {
  const HostTensor a = sample(DType::kF32, {37, 21}, 7), b = sample(DType::kF32, {21, 44}, 8);
  const std::string text = R"(
    kernel k(a: f32[37,21], b: f32[21,44], out y: f32[37,44]) blocks 4 warps 2 gpu {
      grid m in 37 step 32, n in 44 step 32 {
        seq k in 21 step 8 carry acc[m,n]: f32 = 0 @[m=WARP_2-LANE_4-REG_4, n=LANE_8-VEC_4] {
          A[k,m] = a[m,k] at block @[k=LANE_8, m=REG_4-WARP_2-LANE_4];
          B[k,n] = b[k,n] at block @[k=WARP_2-LANE_4, n=LANE_8-VEC_4];
          seq q in min(8, 21-(k-.k)) carry t[m,n]: f32 = acc[m,n] @[m=WARP_2-LANE_4-REG_4, n=LANE_8-VEC_4] {
            t'[m,n] = t[m,n] + A[k-.k+q,m] * B[k-.k+q,n] @[m=WARP_2-LANE_4-REG_4, n=LANE_8-VEC_4];
          }
          acc'[m,n] = t[m,n] @[m=WARP_2-LANE_4-REG_4, n=LANE_8-VEC_4];
        }
        y[m,n] = acc[m,n] @[m=WARP_2-LANE_4-REG_4, n=LANE_8-VEC_4];
      }
    })";
  expect_lowered(
      text, {{"a", a}, {"b", b}}, "y",
      [&](const Coordinates& c) {
        double sum = 0;
        for (int64_t k = 0; k < 21; ++k) sum += at(a, {c[0], k}) * at(b, {k, c[1]});
        return sum;
      },
      1e-5);
}

TEST(LowerGpu, RowsOverTheGridMeetAtItsBarrier) {
  const HostTensor x = sample(DType::kF32, {4, 900}, 9, -3, 3);
  const std::string text = R"(
    kernel softmax(x: f32[4,900], out y: f32[4,900]) blocks 4 warps 2 gpu {
      i: 4;
      t: 4;
      grid j in 900 step 256 {
        X[i,j] = x[i,j] @[i=WARP_2-REG_2, j=REG_2-LANE_32-VEC_4];
        m[i,(j-.j)/256] = max[j] X[i,j];
        M[i] = max[t] m[i,t] @[i=WARP_2-REG_2, t=LANE_4];
        E[i,j] = exp(X[i,j] - M[i]);
        s[i,(j-.j)/256] = sum[j] E[i,j];
        S[i] = sum[t] s[i,t] @[i=WARP_2-REG_2, t=LANE_4];
        y[i,j] = E[i,j] / S[i];
      }
    })";
  expect_lowered(text, {{"x", x}}, "y", [&](const Coordinates& c) { return softmax_at(x, c); });
  EXPECT_TRUE(has_grid_barrier(lower_text(text)));
}

/// Rule 1a: the warp has the element, in a register that is the same for all lanes.
TEST(LowerGpu, ElementsOfOtherLanesComeByShuffles) {
  const HostTensor x = sample(DType::kF32, {5, 12}, 12);
  const auto expected = [&](const Coordinates& c) {
    double sum = 0;
    for (int64_t j = 0; j < 12; ++j) sum += at(x, {c[0], j});
    return at(x, c) * 2 + sum;
  };
  const auto text = [](const std::string& row, const std::string& element) {
    return R"(
    kernel k(x: f32[5,12], out y: f32[5,12]) blocks 1 warps 1 gpu {
      j: 12;
      grid i in 5 step 8 {
        S[i] = sum[j] x[i,j] @[)" +
           row + R"(];
        D[i,j] = x[i,j] * 2 @[i=LANE_8, j=REG_3-LANE_4];
        y[i,j] = D[i,j] + S[i] @[)" +
           element + R"(];
      }
    })";
  };
  // The rows' sums on other lanes, then their registers' halves too.
  for (const char* row : {"j=LANE_4-VEC_4, i=LANE_8", "i=LANE_8, j=LANE_4-VEC_4"}) {
    for (const char* element : {"i=LANE_8, j=REG_3-LANE_4", "j=REG_3-LANE_4, i=LANE_8"}) {
      expect_lowered(text(row, element), {{"x", x}}, "y", expected);
    }
  }
  const KernelFunction kernel =
      lower_text(text("j=LANE_4-VEC_4, i=LANE_8", "i=LANE_8, j=REG_3-LANE_4"));
  EXPECT_EQ(count_instructions(kernel, KernelOp::kWarpPick), 1);
  EXPECT_EQ(kernel.shared_bytes, 0);
}

/// Registers have no dynamic index: what each thread holds whole and each reads another part of
/// goes through shared memory.
TEST(LowerGpu, RegistersThatThreadsPickGoThroughSharedMemory) {
  const HostTensor x = sample(DType::kF32, {3, 8}, 13);
  const std::string text = R"(
    kernel k(x: f32[3,8], out y: f32[3,8]) blocks 3 warps 1 gpu {
      j: 8;
      grid i in 3 {
        V[j] = exp(x[i,j]) @[j=REG_8];
        y[i,j] = V[j] + 1 @[j=REG_2-LANE_4];
      }
    })";
  expect_lowered(text, {{"x", x}}, "y",
                 [&](const Coordinates& c) { return std::exp(at(x, c)) + 1; });
  const KernelFunction kernel = lower_text(text);
  EXPECT_GE(kernel.shared_bytes, 32);
  EXPECT_EQ(barriers(kernel), 1);
}

/// A vector is made of what the thread holds one by one, and taken apart.
TEST(LowerGpu, VectorsAndSingleRegistersReadEachOther) {
  const HostTensor x = sample(DType::kF32, {256}, 14);
  expect_lowered(R"(
    kernel k(x: f32[256], out y: f32[256], out z: f32[256]) blocks 1 warps 1 gpu {
      grid i in 256 step 256 {
        s[i] = x[i] * 2 @[i=LANE_32-REG_8];
        y[i] = s[i] + 1 @[i=LANE_32-REG_2-VEC_4];
        v[i] = x[i] * 3 @[i=LANE_32-REG_2-VEC_4];
        z[i] = v[i] + 1 @[i=LANE_32-REG_8];
      }
    })",
                 {{"x", x}}, "z", [&](const Coordinates& c) { return at(x, c) * 3 + 1; });
}

TEST(LowerGpu, MeanAndVarianceOverAnyThreads) {
  // A large mean, which the difference of squares would lose.
  const HostTensor x = sample(DType::kF32, {6, 200}, 15, 1000, 1001);
  for (const char* place :
       {"j=REG_7-LANE_32", "i=LANE_8, j=REG_13-LANE_4-VEC_4", "j=WARP_3-REG_1-LANE_32-VEC_4"}) {
    const std::string text = R"(
    kernel k(x: f32[6,200], out y: f32[6]) blocks 1 warps 3 gpu {
      j: 200;
      grid i in 6 step 8 {
        mean[i], variance[i] = welford[j] x[i,j] @[)" +
                             std::string(place) + R"(];
        y[i] = variance[i];
      }
    })";
    expect_lowered(
        text, {{"x", x}}, "y",
        [&](const Coordinates& c) {
          double mean = 0, variance = 0;
          for (int64_t j = 0; j < 200; ++j) mean += at(x, {c[0], j}) / 200;
          for (int64_t j = 0; j < 200; ++j) {
            variance += (at(x, {c[0], j}) - mean) * (at(x, {c[0], j}) - mean) / 200;
          }
          return variance;
        },
        1e-4);
  }
}

TEST(LowerGpu, FirstPositionOfTheLargest) {
  HostTensor x = sample(DType::kF32, {4, 150}, 16);
  for (const int64_t j : {149, 31, 77}) x.set_double(j, 5);
  x.set_double(150 + 40, NAN);
  expect_lowered(R"(
    kernel k(x: f32[4,150], out y: i64[4]) blocks 4 warps 2 gpu {
      j: 150;
      grid i in 4 {
        best, place = argmax[j] x[i,j] @[j=REG_3-WARP_2-LANE_32];
        y[i] = place;
      }
    })",
                 {{"x", x}}, "y", [&](const Coordinates& c) {
                   int64_t best = 0;
                   for (int64_t j = 0; j < 150; ++j) {
                     if (std::isnan(at(x, {c[0], j}))) return static_cast<double>(j);
                     if (at(x, {c[0], j}) > at(x, {c[0], best})) best = j;
                   }
                   return static_cast<double>(best);
                 });
}

/// Values of a grid's other blocks, carried in two buffers; where the condition fails a carry
/// keeps its value in both.
TEST(LowerGpu, CarriesAcrossTheGridKeepTheirValueInBothBuffers) {
  const HostTensor x = sample(DType::kF32, {3}, 17);
  expect_lowered(R"(
    kernel k(x: f32[3], out y: f32[3]) blocks 3 warps 1 gpu {
      grid i in 3 {
        seq t in 5 carry h[i]: f32 = x[i] {
          if t < 2 || t > 3 {
            h'[i] = h[(i+1)%3] + 1;
          }
        }
        y[i] = h[i];
      }
    })",
                 {{"x", x}}, "y",
                 [&](const Coordinates& c) { return at(x, {(c[0] + 3) % 3}) + 3; });
}

/// More elements than are worth writing out become loops, of sums too.
TEST(LowerGpu, LargeBoxesAreLoops) {
  const HostTensor x = sample(DType::kF32, {37, 50}, 18), w = sample(DType::kF32, {50, 64}, 19);
  const std::string text = R"(
    kernel k(x: f32[37,50], w: f32[50,64], out y: f32[37,64]) blocks 1 warps 1 gpu {
      j: 50;
      n: 64;
      grid i in 37 step 37 {
        y[i,n] = sum[j] x[i,j] * w[j,n] @[i=REG_37, n=REG_2-LANE_32, j=REG_50];
      }
    })";
  expect_lowered(
      text, {{"x", x}, {"w", w}}, "y",
      [&](const Coordinates& c) {
        double sum = 0;
        for (int64_t j = 0; j < 50; ++j) sum += at(x, {c[0], j}) * at(w, {j, c[1]});
        return sum;
      },
      1e-5);
  EXPECT_LT(count_instructions(lower_text(text)), 1000);
}

/// Loads of a block that nothing has taken up yet, at most.
int64_t most_waiting_loads(const KernelBlock& block) {
  std::set<Reg> waiting;
  size_t most = 0;
  for (const KernelInstruction& in : block.body) {
    for (const Reg r : in.operands) waiting.erase(r);
    if (in.op == KernelOp::kLoad) waiting.insert(in.results[0]);
    most = std::max(most, waiting.size());
    for (const KernelBlock& region : in.regions)
      most = std::max(most, static_cast<size_t>(most_waiting_loads(region)));
  }
  return static_cast<int64_t>(most);
}

// What contributes to many results of a thread is not loaded all at once: registers would not do.
TEST(LowerGpu, PartsOfManyResultsAreAddedAsTheyCome) {
  const HostTensor x = sample(DType::kF32, {4, 6, 1024}, 15);
  const std::string text = R"(
    kernel k(x: f32[4,6,1024], out y: f32[6,1024]) blocks 2 warps 4 gpu {
      t: 4;
      grid i in 6 step 4, j in 1024 step 1024 {
        T[i,j] = sum[t] x[t,i,j] @[i=WARP_4, j=REG_8-LANE_32-VEC_4, t=REG_4];
        y[i,j] = T[i,j] @[i=WARP_4, j=REG_8-LANE_32-VEC_4];
      }
    })";
  expect_lowered(text, {{"x", x}}, "y", [&](const Coordinates& c) {
    return at(x, {0, c[0], c[1]}) + at(x, {1, c[0], c[1]}) + at(x, {2, c[0], c[1]}) +
           at(x, {3, c[0], c[1]});
  });
  // Eight vectors of four: two results of four parts each.
  EXPECT_EQ(most_waiting_loads(lower_text(text).phases[0].body), 8);
}

TEST(LowerGpu, PacksBodiesOnDisjointBlocks) {
  const HostTensor x = sample(DType::kF32, {5, 256}, 10), u = sample(DType::kF32, {3, 256}, 11);
  const std::string text = R"(
    kernel packing(x: f32[5,256], u: f32[3,256], out y: f32[5], out z: f32[3]) blocks 8 warps 2 gpu {
      j: 256;
      pack {
        share 5 { grid a in 5 { y[a] = sum[j] x[a,j] @[j=WARP_2-LANE_32-VEC_4]; } }
        share 3 { grid b in 3 { z[b] = max[j] u[b,j]; } }
      }
    })";
  expect_lowered(
      text, {{"x", x}, {"u", u}}, "y",
      [&](const Coordinates& c) {
        double sum = 0;
        for (int64_t j = 0; j < 256; ++j) sum += at(x, {c[0], j});
        return sum;
      },
      1e-5);
  expect_lowered(text, {{"x", x}, {"u", u}}, "z", [&](const Coordinates& c) {
    double top = -INFINITY;
    for (int64_t j = 0; j < 256; ++j) top = std::max(top, at(u, {c[0], j}));
    return top;
  });
}

// Plain cores multiply the zeros that the last tile of the depth holds.
TEST(LowerGpu, ZerosBeyondATailAreLoadedAhead) {
  const HostTensor a = sample(DType::kF32, {8, 20}, 1), b = sample(DType::kF32, {20, 32}, 2);
  expect_lowered(R"(
    kernel k(a: f32[8,20], b: f32[20,32], out y: f32[8,32]) blocks 1 warps 1 gpu {
      grid m in 8 step 8, n in 32 step 32 {
        seq k in 20 step 8 stages 2 carry acc[m,n]: f32 = 0 @[m=REG_2-LANE_4, n=LANE_8-VEC_4] {
          A[m,k] = a[m,k] at block @[m=REG_4-LANE_2, k=REG_2-LANE_4];
          B[k,n] = b[k,n] at block @[k=REG_8, n=LANE_32];
          seq q in 8 unroll carry part[m,n]: f32 = acc[m,n] @[m=REG_2-LANE_4, n=LANE_8-VEC_4] {
            part'[m,n] = part[m,n] + (A[m,k+q-.k] fill 0) * (B[k+q-.k,n] fill 0)
              @[m=REG_2-LANE_4, n=LANE_8-VEC_4];
          }
          acc'[m,n] = part[m,n] @[m=REG_2-LANE_4, n=LANE_8-VEC_4];
        }
        y[m,n] = acc[m,n] @[m=REG_2-LANE_4, n=LANE_8-VEC_4];
      }
    })",
                 {{"a", a}, {"b", b}}, "y", [&](const Coordinates& c) {
                   double sum = 0;
                   for (int64_t k = 0; k < 20; ++k) sum += at(a, {c[0], k}) * at(b, {k, c[1]});
                   return sum;
                 });
}

/// Rows of the last tile are left out where they are stored; a branch for each factor that they
/// would take out of shared memory costs ten times what the factor does.
TEST(LowerGpu, TailsReadSharedMemoryWithoutGuards) {
  const HostTensor a = sample(DType::kF32, {37, 8}, 3), b = sample(DType::kF32, {8, 32}, 4);
  constexpr std::string_view kText = R"(
    kernel k(a: f32[37,8], b: f32[8,32], out y: f32[37,32]) blocks 3 warps 1 gpu {
      q: 8;
      n: 32;
      grid m in 37 step 16 {
        A[m,q] = a[m,q] * 2.0 at block @[m=REG_4-LANE_4, q=LANE_8];
        B[q,n] = b[q,n] * 0.5 at block @[q=REG_8, n=LANE_32];
        seq k in 8 unroll carry part[m,n]: f32 = 0 @[m=REG_4-LANE_4, n=LANE_8-VEC_4] {
          part'[m,n] = part[m,n] + A[m,k] * B[k,n] @[m=REG_4-LANE_4, n=LANE_8-VEC_4];
        }
        y[m,n] = part[m,n] @[m=REG_4-LANE_4, n=LANE_8-VEC_4];
      }
    })";
  expect_lowered(kText, {{"a", a}, {"b", b}}, "y", [&](const Coordinates& c) {
    double sum = 0;
    for (int64_t k = 0; k < 8; ++k) sum += at(a, {c[0], k}) * at(b, {k, c[1]});
    return sum;
  });
  const KernelFunction kernel = lower_text(kText);
  // Four factors of each column of A and one of B for each of 8 steps, without a predicate.
  EXPECT_EQ(shared_loads(kernel, /*guarded=*/false), 8 * (4 + 1));
  EXPECT_EQ(shared_loads(kernel, /*guarded=*/true), 0);
}

}  // namespace
}  // namespace weft::testing
