#include "cost/latency.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tile/analysis/derive_scopes.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

/// One core of 1 GHz with vectors of eight, 1000 cycles a microsecond, whose launches cost nothing.
/// Caches of 1000, 10000 and 100000 bytes move 64, 16 and 4 bytes a cycle, memory 1.
Target slow(int threads = 1) {
  Target t;
  t.name = "test";
  t.threads = threads;
  t.vector_bytes = 32;
  t.peak_gflops = 32 * threads;
  t.l1_bytes = 1000;
  t.l2_bytes = 10000;
  t.l3_bytes = 100000;
  t.bandwidth = {{999, 64.0 * threads},
                 {1000, 16.0 * threads},
                 {9999 * threads, 16.0 * threads},
                 {10000 * threads, 4.0 * threads},
                 {99999, 4.0 * threads},
                 {100000, 1.0 * threads}};
  t.launch_us = 0;
  t.barrier_us = 0;
  return t;
}

Latency of(std::string_view text, const Target& target) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  auto scopes = derive_scopes(*program);
  EXPECT_TRUE(scopes.ok()) << scopes.error().message;
  return cpu_latency(*program, *scopes, target);
}

/// What most of a core's ports are asked for, and the part that falls together with it of what the
/// next is asked for.
double meeting(double most, double next) { return most + 0.05 * next; }

/// A vector of exp: two pipes take its 22 instructions in 11 cycles, and it is 24 with the load and
/// the store, of which five end in a cycle.
const double kExp = meeting(11, 24 / 5.0);

// 80 lines of a panel that rows read again, 5 KB: a kilobyte apart they share one of 16 sets of
// eight lines each, 1088 bytes apart they lie in all.
TEST(Latency, LinesThatShareAFewSetsDoNotStayInTheSecondCache) {
  Target target = slow();
  target.l1_bytes = 256;
  target.l2_bytes = 8192;
  target.bandwidth = {{1000, 16}, {8191, 16}, {8192, 4}, {99999, 4}, {100000, 1}};
  const auto third_cache_us = [&](int columns) {
    return of(fmt::format(R"(
      kernel k(a: f32[10,80], b: f32[80,{0}], out y: f32[10,16]) blocks P warps 1 {{
        n: 16;
        grid m in 10 {{
          seq k in 80 carry acc[n]: f32 = 0 @[n=REG_2-VEC_8] {{
            acc'[n] = acc[n] + a[m,k] * b[k,n] @[n=REG_2-VEC_8];
          }}
          y[m,n] = acc[n] @[n=REG_2-VEC_8];
        }}
      }})",
                          columns),
              target)
        .third_cache_us;
  };
  EXPECT_GT(third_cache_us(256), 5 * third_cache_us(272));
}

TEST(Latency, CountsVectorsOfElementaryFunctions) {
  const Latency l = of(R"(kernel k(x: f32[4096], out y: f32[4096]) blocks P warps 1 {
  grid i in 4096 step 8 {
    t[i] = exp(x[i]) @[i=VEC_8];
    y[i] = t[i] @[i=VEC_8];
  }
})",
                       slow());
  EXPECT_NEAR(l.compute_us, 512 * kExp / 1e3, 1e-9);
  // 32768 bytes come from the third cache.
  EXPECT_NEAR(l.memory_us, 32768 / 4e3, 1e-9);
  EXPECT_EQ(l.bound, Latency::Bound::kThirdCache);
  // And a few percent of what else works.
  EXPECT_NEAR(l.microseconds, 32768 / 4e3 + 0.03 * (l.compute_us + l.second_cache_us + l.memory_us),
              1e-9);
}

/// Of two nests that exp takes 11 cycles a vector each: those of which one reads what the other
/// stores have a barrier each, those beside each other one.
TEST(Latency, NestsBesideEachOtherShareABarrier) {
  Target target = slow(2);
  target.launch_us = 4;
  target.barrier_us = 1;
  const auto nests = [](const std::string& view, const std::string& read) {
    return "kernel k(x: f32[4096], out y: f32[4096], out z: f32[4096]) blocks P warps 1 {\n" +
           view +
           "  grid i in 4096 step 8 { y[i] = exp(x[i]) @[i=VEC_8]; }\n"
           "  grid j in 4096 step 8 { z[j] = exp(" +
           read + "[j]) @[j=VEC_8]; }\n}";
  };
  const Latency beside = of(nests("", "x"), target),
                behind = of(nests("  view w: f32[4096] of y;\n", "w"), target);
  EXPECT_EQ(beside.start_us, 4 + 1);
  EXPECT_EQ(behind.start_us, 4 + 2 * 1);
  EXPECT_NEAR(beside.compute_us, behind.compute_us, 1e-9);
  EXPECT_FALSE(beside.alone);
}

/// Two threads save half of what one takes, which the barrier behind it must not take; of many each
/// saves nearly all. A nest of 5.6 us is shared where a barrier takes 2.5, and not where it
/// takes 3.
TEST(Latency, ThreadsShareWhatABarrierTakesLessThan) {
  Target target = slow(2);
  const auto alone = [&](double barrier_us) {
    target.barrier_us = barrier_us;
    return of("kernel k(x: f32[4096], out y: f32[4096]) blocks P warps 1 {\n"
              "  grid i in 4096 step 8 { y[i] = exp(x[i]) @[i=VEC_8]; }\n}",
              target)
        .alone;
  };
  EXPECT_FALSE(alone(1.3));
  EXPECT_TRUE(alone(1.5));
  EXPECT_NEAR(least_shared_us(target), 6, 1e-9);
  target.threads = 16;
  EXPECT_NEAR(least_shared_us(target), 3.2, 1e-9);
}

/// Items of a pack are one list: of two members of one item each thread makes one, of members of
/// one and three items the first thread makes the first and a third of the second.
TEST(Latency, ItemsOfAPackAreOneList) {
  const auto pack = [](const std::string& rows) {
    return "kernel k(x: f32[1,4096], u: f32[" + rows + ",4096], out y: f32[1,4096], out z: f32[" +
           rows + ",4096]) blocks P warps 1 {\n" +
           "  pack {\n    share 1 { grid i in 1 { seq j in 4096 step 8 { y[i,j] = exp(x[i,j]) "
           "@[j=VEC_8]; } } }\n    share " +
           rows + " { grid m in " + rows +
           " { seq n in 4096 step 8 { z[m,n] = exp(u[m,n]) @[n=VEC_8]; } } }\n  }\n}";
  };
  const double row = of(pack("1"), slow()).compute_us / 2;
  EXPECT_NEAR(of(pack("1"), slow(2)).compute_us, row, 0.05 * row);
  EXPECT_NEAR(of(pack("3"), slow(2)).compute_us, 2 * row, 0.05 * row);
}

std::string row_sum(int accumulators) {
  const std::string step = std::to_string(8 * accumulators), n = std::to_string(accumulators);
  return "kernel k(x: f32[8,800], out y: f32[8]) blocks P warps 1 {\n  jj: " + step +
         ";\n  grid i in 8 {\n    seq j in 800 step " + step + " carry c[.j]: f32 = 0.0 @[j=REG_" +
         n + "-VEC_8] {\n      c'[.j] = c[.j] + x[i,j] @[j=REG_" + n +
         "-VEC_8];\n    }\n    r = sum[jj] c[jj] @[jj=REG_" + n + "-VEC_8];\n    y[i] = r;\n  }\n}";
}

/// An accumulator takes a vector every four cycles; five of them leave no cycle empty that the
/// loads of two vectors a cycle do not ask for.
TEST(Latency, ChainsOfResultsAreAwaited) {
  const double one = of(row_sum(1), slow()).compute_us, five = of(row_sum(5), slow()).compute_us;
  EXPECT_GT(one, 8 * 100 * 4 / 1e3);
  EXPECT_LT(one, 8 * (100 * 4 + 80) / 1e3);
  EXPECT_GT(five, 8 * 20 * 4 / 1e3);
  EXPECT_LT(five, 8 * (20 * 4 + 80) / 1e3);
}

std::string tile_of_products(int rows, int vectors, const std::string& b_columns = "16",
                             int of_rows = 0) {
  return fmt::format(
      "kernel k(a: f32[{0},64], b: f32[64,{3}], out y: f32[{0},{2}]) blocks P warps 1 {{\n"
      "  grid i in {0} step {4}, j in {2} step {2} {{\n"
      "    seq d in 64 unroll 4 carry c[i,j]: f32 = 0.0 @[i=REG_{4}, j=REG_{1}-VEC_8] {{\n"
      "      c'[i,j] = c[i,j] + a[i,d]*b[d,j] @[i=REG_{4}, j=REG_{1}-VEC_8];\n    }}\n"
      "    y[i,j] = c[i,j] @[i=REG_{4}, j=REG_{1}-VEC_8];\n  }}\n}}",
      rows, vectors, 8 * vectors, b_columns, of_rows > 0 ? of_rows : rows);
}

/// Sums of products: six broadcast rows and two loaded vectors for twelve multiply-adds a step.
/// Half of the time of the twelve stores passes while the loop still runs.
const double kTile = 64 * meeting(6, 4) + meeting(12, 12 / 5.0) / 2;

TEST(Latency, ProductsAndSumsAreOneInstruction) {
  const Latency l = of(tile_of_products(6, 2), slow());
  // 12 in two pipes beside eight loads, and 12 stores.
  EXPECT_NEAR(l.compute_us, kTile / 1e3, 1e-4);
}

/// A core that cuts its vectors in halves begins one multiply-add a cycle: products take twice as
/// long, and a chain of sums as long as elsewhere.
TEST(Latency, VectorsThatAreCutTakeTwiceAsLongButAwaitNoMore) {
  Target cut = slow();
  cut.peak_gflops /= 2;
  EXPECT_NEAR(of(tile_of_products(6, 4, "32"), cut).compute_us,
              2 * of(tile_of_products(6, 4, "32"), slow()).compute_us, 0.02);
  EXPECT_NEAR(of(row_sum(1), cut).compute_us, of(row_sum(1), slow()).compute_us, 0.05);
}

/// Elements that stand for all lanes are not cut: twelve of them and a vector are loaded in the
/// time of seven vectors, less than the twelve multiply-adds beside them.
TEST(Latency, ElementsAreNotCut) {
  Target cut = slow();
  cut.peak_gflops /= 2;
  const double us = of(tile_of_products(12, 1, "8"), cut).compute_us;
  EXPECT_NEAR(us, (64 * meeting(6, 7 / 2.0) + meeting(12, 12 / 10.0) / 2) / 500, 1e-3);
}

/// Six elements of float16 take five instructions each to be all lanes of a vector of float32,
/// beside twelve multiply-adds.
TEST(Latency, ElementsOfHalvesAreConvertedOneByOne) {
  std::string text = tile_of_products(6, 2);
  text.replace(text.find("a: f32"), 6, "a: f16");
  text.replace(text.find("a[i,d]"), 6, "f32(a[i,d])");
  const double us = of(text, slow()).compute_us;
  EXPECT_NEAR(us, (64 * meeting((12 + 6 * 5) / 2.0, (12 + 6 * 5 + 8) / 5.0) + 6) / 1e3, 0.02);
}

/// Where two pipes add beside two that multiply, the 22 instructions of an exp, two thirds of which
/// multiply, take these as long as those take them.
TEST(Latency, PipesThatAddStandBesideThoseThatMultiply) {
  Target beside = slow();
  beside.cpu = "znver3";
  const char* exps =
      "kernel k(x: f32[64], out y: f32[64]) blocks P warps 1 {\n"
      "  grid i in 64 step 32 { y[i] = exp(x[i]) @[i=REG_4-VEC_8]; }\n}";
  EXPECT_NEAR(of(exps, beside).compute_us, 8 * meeting(22 / 3.0, 24 / 5.0) / 1e3, 1e-9);
}

/// Rows of a panel 4096 bytes from each other lie in one set of the first cache: of 64 each pushes
/// out one that the next tile reads, and it takes the set 13 cycles. One line more between them
/// leaves each a set of its own.
TEST(Latency, RowsThatShareASetOfTheCacheArriveOneByOne) {
  const double one = of(tile_of_products(6, 2, "1024"), slow()).compute_us,
               many = of(tile_of_products(6, 2, "1040"), slow()).compute_us;
  EXPECT_NEAR(one - many, 64 * (meeting(13, 6) - meeting(6, 4)) / 1e3, 1e-3);
}

/// Of 13 rows twelve are a tile, and the last one's sums await each other for four cycles.
TEST(Latency, ATileOfWhatIsLeftWaitsWhereWholeOnesDoNot) {
  const double whole = of(tile_of_products(12, 1, "8"), slow()).compute_us,
               both = of(tile_of_products(13, 1, "8", 12), slow()).compute_us;
  EXPECT_NEAR(both - whole, 64 * 4 / 1e3, 0.02);
}

/// Registers that a tile has for rows which are not there hold nothing, and nothing is spilled.
TEST(Latency, RowsThatAreNotThereTakeNoRegisters) {
  Target target = slow();
  target.vector_registers = 32;
  EXPECT_NEAR(of(tile_of_products(6, 4, "32", 12), target).compute_us,
              of(tile_of_products(6, 4, "32"), target).compute_us, 1e-9);
  EXPECT_GT(of(tile_of_products(12, 4, "32"), target).compute_us,
            3 * of(tile_of_products(6, 4, "32"), target).compute_us);
}

/// Whether a row is padding is known where its code is written: loops and borders have their own.
TEST(Latency, PredicatesOfRowsCostNothing) {
  const auto with = [](const std::string& factor) {
    return of("kernel k(a: f32[6,64], b: f32[64,16], out y: f32[6,16]) blocks P warps 1 {\n"
              "  grid i in 6 step 6, j in 16 step 16 {\n    seq d in 64 unroll 4 carry c[i,j]: f32 "
              "= "
              "0.0 @[i=REG_6, j=REG_2-VEC_8] {\n      c'[i,j] = c[i,j] + " +
                  factor +
                  "*b[d,j] @[i=REG_6, j=REG_2-VEC_8];\n    }\n    y[i,j] = c[i,j] @[i=REG_6, "
                  "j=REG_2-VEC_8];\n  }\n}",
              slow())
        .compute_us;
  };
  EXPECT_NEAR(with("(i >= 1 && i < 5 ? a[i,d] : 0.0)"), kTile / 1e3, 1e-4);
  // Which columns are padding is a mask of lanes: an index, two comparisons, their product and a
  // choice of each of two vectors, beside 12 multiply-adds.
  EXPECT_GT(with("(j >= 1 && j < 15 ? a[i,d] : 0.0)"), 64 * 9 / 1e3);
}

/// Which of two tensors an element is of is known where it is written out: one load of the two.
/// Lanes choose between both, each gathered at places that take two quotients.
TEST(Latency, ElementsChooseBeforeTheyLoadAndLanesBehind) {
  const auto with = [](const std::string& loop, const std::string& place) {
    return of("kernel k(a: f32[4,8], b: f32[4,8], out y: f32[4,8]) blocks P warps 1 {\n  grid i in "
              "4 "
              "{\n    seq j in 8 " +
                  loop +
                  " {\n      y[i,j] = j/2+(j%2)*4 < 5 ? a[i,j/2+(j%2)*4] : b[i,j/2+(j%2)*4]" +
                  place + ";\n    }\n  }\n}",
              slow())
        .compute_us;
  };
  const double one = with("unroll", "");
  EXPECT_NEAR(one, 4 * 8 * meeting(1, 0.5) / 1e3, 1e-4);  // a store, and one load beside it
  // Sixteen loads, as many that put them together, quotients of two vectors of places.
  EXPECT_GT(with("step 8", " @[j=VEC_8]"), 4 * (16 + 32) / 2 / 1e3);
}

/// Rows that grow by eight from 8 to 64 elements: each counts as their mean, of 36.
TEST(Latency, LengthsAreTheirMean) {
  const Latency l = of(R"(kernel k(x: f32[8,64], out y: f32[8,64]) blocks P warps 1 {
  grid i in 8 {
    seq j in i*8+8 step 8 {
      y[i,j] = exp(x[i,j]) @[j=VEC_8];
    }
  }
})",
                       slow());
  EXPECT_NEAR(l.compute_us, 8 * 4.5 * kExp / 1e3, 1e-9);
}

/// A step of 64 elements and one of the 32 that are left: twelve vectors.
TEST(Latency, StepsEndWhereTheirAxisDoes) {
  const Latency l = of(R"(kernel k(x: f32[96], out y: f32[96]) blocks P warps 1 {
  grid i in 96 step 64 {
    seq j in i-.i .. min(96, i+64-.i) step 8 {
      y[j] = exp(x[j]) @[j=VEC_8];
    }
  }
})",
                       slow());
  EXPECT_NEAR(l.compute_us, 12 * kExp / 1e3, 1e-9);
}

/// Of the time in which caches move 2048 elements a tenth is awaited, and less in the measure in
/// which there is more to compute meanwhile. Of what comes from the second cache little else
/// counts.
TEST(Latency, CachesAreAwaitedInPart) {
  const auto of_elements = [](const char* n) {
    return of(fmt::format("kernel k(x: f32[{0}], out y: f32[{0}]) blocks P warps 1 {{\n"
                          "  grid i in {0} step 8 {{ y[i] = exp(exp(exp(x[i]))) @[i=VEC_8]; }}\n}}",
                          n),
              slow());
  };
  const Latency l = of_elements("2048");
  EXPECT_GT(l.compute_us, 256 * 33 / 1e3);
  EXPECT_NEAR(l.second_cache_us, 16384 / 16e3, 1e-9);
  EXPECT_NEAR(l.third_cache_us, 16384 / 4e3, 1e-9);
  const double caches = l.second_cache_us + l.third_cache_us;
  const double awaited = 0.1 * caches * caches / l.compute_us;
  const double beside = 0.3 * l.second_cache_us + l.third_cache_us + l.memory_us - awaited;
  EXPECT_NEAR(l.microseconds, l.compute_us + awaited + 0.03 * beside, 1e-9);
}

/// A launch wakes threads and waits for them; what one thread runs is a call.
TEST(Latency, OneThreadStartsByACall) {
  const char* rows = R"(kernel k(x: f32[4,8000], out y: f32[4,8000]) blocks P warps 1 {
  grid i in 4 {
    seq j in 8000 step 8 {
      y[i,j] = exp(x[i,j]) @[j=VEC_8];
    }
  }
})";
  Target one = slow(1), two = slow(2);
  one.launch_us = two.launch_us = 1;
  one.barrier_us = two.barrier_us = 2;
  EXPECT_NEAR(of(rows, one).start_us, 0.05, 1e-9);
  EXPECT_NEAR(of(rows, two).start_us, 3, 1e-9);
}

/// What lies across the lanes is loaded one by one, or turned where as many rows are there.
TEST(Latency, LanesApartAreGatheredOrTurned) {
  const auto across = [](const char* place) {
    return of(std::string("kernel k(x: f32[800,64], out y: f32[64,800]) blocks P warps 1 {\n") +
                  "  grid j in 64 step 8, i in 800 step 8 {\n    y[j,i] = x[i,j] @[" + place +
                  "];\n  }\n}",
              slow())
        .compute_us;
  };
  const double turned = across("j=REG_8, i=VEC_8");
  // Eight vectors: three exchanges each in two pipes, beside eight stores: 12 cycles.
  EXPECT_NEAR(turned, 800 * meeting(12, 8) / 1e3, 1e-9);
  const double gathered = of(R"(kernel k(x: f32[800,64], out y: f32[64,800]) blocks P warps 1 {
  grid j in 64, i in 800 step 8 {
    y[j,i] = x[i,j] @[i=VEC_8];
  }
})",
                             slow())
                              .compute_us;
  EXPECT_GT(gathered, 2.5 * turned);
}

/// Groups of 12 channels, of which each lane takes its group's first: vectors of four lie in one,
/// and of those of eight every second reaches into another, an element a lane.
TEST(Latency, LanesOfTwoGroupsAreGathered) {
  const auto k = [](int lanes, const std::string& group) {
    const std::string n = std::to_string(lanes);
    return of("kernel k(x: f32[240], out y: f32[240]) blocks P warps 1 {\n  grid i in 240 step " +
                  n + " { y[i] = exp(x[(i/" + group + ")*" + group + "]) @[i=VEC_" + n + "]; }\n}",
              slow())
        .compute_us;
  };
  EXPECT_NEAR(k(4, "12"), k(4, "4"), 1e-9);
  EXPECT_GT(k(8, "12"), 1.2 * k(8, "8"));
}

/// Groups of twelve begin elsewhere in each vector of eight: no one order of a vector's lanes
/// serves all, as it does for groups of four.
TEST(Latency, LanesInAnotherOrderInEachVectorAreGathered) {
  const auto k = [](const std::string& group) {
    return of("kernel k(x: f32[240], m: f32[60], out y: f32[240]) blocks P warps 1 {\n  grid i in "
              "240 step 8 { y[i] = x[i] * m[i/" +
                  group + "] @[i=VEC_8]; }\n}",
              slow())
        .compute_us;
  };
  EXPECT_GT(k("12"), 1.5 * k("4"));
}

/// A CPU that takes two turns for its widest vectors begins twice as many of half of them.
TEST(Latency, VectorsThatNeedNoSecondTurnTakeLess) {
  const auto k = [](int lanes, const std::string& cpu) {
    Target target = slow();
    target.vector_bytes = 64;
    target.cpu = cpu;
    const std::string n = std::to_string(lanes);
    return of("kernel k(x: f32[4096], out y: f32[4096]) blocks P warps 1 {\n  grid i in 4096 "
              "step " +
                  n + " { y[i] = exp(x[i]) @[i=VEC_" + n + "]; }\n}",
              target)
        .compute_us;
  };
  EXPECT_NEAR(k(8, "znver5"), 2 * k(16, "znver5"), 1e-9);
  EXPECT_LT(k(8, "znver4"), 0.8 * k(8, "znver5"));  // but for the loop's own instructions
  EXPECT_NEAR(k(16, "znver4"), k(16, "znver5"), 1e-9);
}

/// Lanes stored 4096 bytes from each other lie in one set of the first cache, however many ways it
/// has; a line more between them leaves each a set of its own.
TEST(Latency, StoresThatShareASetOfTheCacheTakeLonger) {
  Target target = slow();
  target.l1_bytes = 48 << 10;
  const auto stored = [&](const std::string& n) {
    return of("kernel k(x: f32[1024,64], out y: f32[64," + n +
                  "]) blocks P warps 1 {\n"
                  "  grid i in 1024, j in 64 step 64 {\n    y[j,i] = x[i,j] @[j=REG_8-VEC_8];\n  "
                  "}\n}",
              target)
        .compute_us;
  };
  EXPECT_NEAR(stored("1024") / stored("1040"), 64 * 0.17 / 2, 0.1);
}

/// Rows that one core takes in its cache and reads again, and rows that it loads twice.
TEST(Latency, WhatACacheHoldsIsLoadedOnce) {
  const auto twice = [](int n) {
    const std::string length = std::to_string(n);
    return of("kernel k(x: f32[16," + length + "], out y: f32[16," + length +
                  "]) blocks P warps 1 {\n  jj: 8;\n  grid i in 16 {\n    seq j in " + length +
                  " step 8 carry c[.j]: f32 = 0.0 @[j=VEC_8] {\n      c'[.j] = c[.j] + x[i,j] "
                  "@[j=VEC_8];\n    }\n    r = sum[jj] c[jj] @[jj=VEC_8];\n    seq k in " +
                  length + " step 8 {\n      y[i,k] = x[i,k] * r @[k=VEC_8];\n    }\n  }\n}",
              slow());
  };
  // A row is 256 bytes, with its result 512: x and y come once from the second cache.
  EXPECT_NEAR(twice(64).second_cache_us, 16 * 512 / 16e3, 1e-9);
  // Rows of 2048 bytes fill the first cache: x comes twice.
  EXPECT_NEAR(twice(512).second_cache_us, 16 * 3 * 2048 / 16e3, 1e-9);
  EXPECT_NEAR(twice(512).third_cache_us, 16 * 2 * 2048 / 4e3, 1e-9);
}

/// Of three items one of two threads has two.
TEST(Latency, TheBusiestCoreDecides) {
  const std::string three = R"(kernel k(x: f32[3,8000], out y: f32[3,8000]) blocks P warps 1 {
  grid i in 3 {
    seq j in 8000 step 8 {
      y[i,j] = exp(x[i,j]) @[j=VEC_8];
    }
  }
})";
  EXPECT_NEAR(of(three, slow(1)).compute_us, 3 * kExp, 1e-9);
  EXPECT_NEAR(of(three, slow(2)).compute_us, 2 * kExp, 1e-9);
}

}  // namespace
}  // namespace weft
