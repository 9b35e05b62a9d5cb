// The evaluator `latency` of GPUs beside numbers worked out by hand.

#include "cost/gpu_latency.h"

#include <gtest/gtest.h>

#include "tile/analysis/derive_scopes.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

/// Four SMs of 1 GHz: 1000 cycles a microsecond. Launches cost nothing, memory hardly anything.
Target small() {
  Target t;
  t.kind = Target::Kind::kGpu;
  t.name = "test";
  t.sm_count = 4;
  t.clock_mhz = 1000;
  t.threads_per_sm = 2048;
  t.blocks_per_sm = 32;
  t.registers_per_sm = 65536;
  t.registers_per_thread = 255;
  t.shared_bytes_per_block = 4096;
  t.shared_bytes_per_sm = 8192;
  t.cpi = {{"f32", 0.5}, {"special", 2}, {"shared", 1}, {"int", 0.5}};
  t.bandwidth = {{1, 1e9}};
  t.launch_us = 0;
  t.barrier_us = 0;
  return t;
}

GpuLatency of(std::string_view text, const Target& target, int64_t bytes = 0) {
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  auto scopes = derive_scopes(*program);
  EXPECT_TRUE(scopes.ok()) << scopes.error().message;
  return gpu_latency(*program, *scopes, bytes, target);
}

std::string elementwise(int blocks, const std::string& scope = "") {
  return "kernel k(x: f32[16384], out y: f32[16384]) blocks " + std::to_string(blocks) +
         R"( warps 8 gpu {
  grid i in 16384 step 256 {
    t[i] = exp(x[i]) )" +
         scope + R"( @[i=WARP_8-LANE_32];
    y[i] = t[i] @[i=WARP_8-LANE_32];
  }
})";
}

/// An SM holds 8 of 64 blocks, 64 warps: two waves. Of a warp: a load, for which it waits 500
/// cycles, an exp of two instructions, a store. 64 warps share pipes of one cycle, and of two.
TEST(GpuLatency, IsWavesOfWarpsThatTakeTheirInstructions) {
  const GpuLatency l = of(elementwise(64), small());
  EXPECT_EQ(l.warps_of_sm, 64);
  EXPECT_EQ(l.waves, 2);
  EXPECT_DOUBLE_EQ(l.warp_cycles, 64 + 500 + 2 * 128 + 64);
  EXPECT_DOUBLE_EQ(l.microseconds, 2 * l.warp_cycles / 1000);
  EXPECT_EQ(l.bound, GpuLatency::Bound::kInstructions);
}

/// Few warps wait for their own results. Blocks that stay go through several items.
TEST(GpuLatency, FewWarpsWaitForDependentInstructions) {
  const GpuLatency l = of(elementwise(4), small());
  EXPECT_EQ(l.warps_of_sm, 8);
  EXPECT_EQ(l.waves, 1);
  EXPECT_DOUBLE_EQ(l.warp_cycles, 16 * (8 + 500 + 2 * 16 + 8));
}

/// A block that keeps 1 KB, beside the 1 KB that each takes, leaves an SM of 8 KB room for four:
/// waves double. What lies in shared memory is stored and loaded.
TEST(GpuLatency, OccupancyFollowsFromWhatLives) {
  const GpuLatency l = of(elementwise(64, "at block"), small());
  EXPECT_EQ(l.shared_bytes, 1024);
  EXPECT_EQ(l.warps_of_sm, 32);
  EXPECT_EQ(l.waves, 4);
  EXPECT_DOUBLE_EQ(l.warp_cycles, (32 + 500 + 2 * 64 + 32) + (32 + 19 + 32));
}

/// Rows of 32 on the lanes of a warp take five shuffles, on the warps of a block a barrier and what
/// is left by each.
TEST(GpuLatency, ReductionsPassOverLanesOrWarps) {
  const auto rows = [](const std::string& place) {
    return of(
        "kernel k(x: f32[64,32], out y: f32[64]) blocks 64 warps 32 gpu {\n  j: 32;\n"
        "  grid i in 64 { s[i] = sum[j] x[i,j] @[j=" +
            place + "]; y[i] = s[i]; }\n}",
        small());
  };
  const double load = 64 + 500 + 32, store = 64;  // with the first addition
  EXPECT_DOUBLE_EQ(rows("LANE_32").warp_cycles, load + 5 * (23 + 64 + 32) + store);
  EXPECT_DOUBLE_EQ(rows("WARP_32").warp_cycles, load + 30 + 19 + 2 * 64 + 31 * 32 + store);
}

/// One warp alone: four products of a thread follow each other, a fifth instruction waits for the
/// last. What is the same for all four is read and computed once. What lies behind each other comes
/// line by line, 128 bytes a cycle: what is 64 bytes apart two elements a cycle.
TEST(GpuLatency, IndependentInstructionsFollowEachOther) {
  const auto cycles = [](const std::string& read) {
    return of("kernel k(x: f32[65536], out y: f32[4096]) blocks 32 warps 1 gpu {\n"
              "  grid i in 4096 step 128 { y[i] = x[" +
                  read + "] + 1.0 @[i=REG_4-LANE_32]; }\n}",
              small())
        .warp_cycles;
  };
  const double beside = 8;  // blocks of an SM, which share its pipes
  EXPECT_DOUBLE_EQ(cycles("i"), 4 * beside + 500 + 4 * beside / 2 + 4 * beside);
  EXPECT_DOUBLE_EQ(cycles("7"), beside + 500 + beside / 2 + 4 * beside);
  EXPECT_DOUBLE_EQ(cycles("i*16"), 4 * 16 * beside + 500 + 4 * beside / 2 + 4 * beside);
}

/// A loop of three stages has asked for a step two steps before; iterations that are written side
/// by side wait once, and turn no loop.
TEST(GpuLatency, LoopsAskAheadOrTogether) {
  const auto cycles = [](const std::string& how) {
    return of(R"(
kernel k(x: f32[64,64], out y: f32[64]) blocks 1 warps 1 gpu {
  grid i in 64 step 64 {
    seq k in 64 step 1 )" +
                  how + R"( carry acc[i]: f32 = 0.0 @[i=REG_2-LANE_32] {
      acc'[i] = acc[i] + x[k,i] @[i=REG_2-LANE_32];
    }
    y[i] = acc[i] @[i=REG_2-LANE_32];
  }
})",
              small())
        .warp_cycles;
  };
  const double step = 4 + 4, stored = 4;
  EXPECT_DOUBLE_EQ(cycles(""), 64 * (step + 500 + 3 * 4) + stored);
  EXPECT_DOUBLE_EQ(cycles("stages 3"), 64 * (500.0 / 2 + 3 * 4) + stored);
  EXPECT_DOUBLE_EQ(cycles("unroll"), 64 * step + 500 + stored);
}

/// Never below what its bytes take, and few blocks ask for a part of the bandwidth.
TEST(GpuLatency, IsNoLessThanItsTraffic) {
  Target target = small();
  target.bandwidth = {{1, 10}};
  const GpuLatency all = of(elementwise(64), target, 131072);
  EXPECT_EQ(all.bound, GpuLatency::Bound::kMemory);
  EXPECT_NEAR(all.microseconds, 131072 / 10e3, 1e-3);
  const GpuLatency few = of(elementwise(2), target, 131072);
  EXPECT_NEAR(few.memory_us, 4 * 131072 / 10e3, 1e-2);
}

/// A barrier of the grid is the target's.
TEST(GpuLatency, CountsBarriersOfTheGrid) {
  Target target = small();
  target.launch_us = 3;
  target.barrier_us = 10;
  const GpuLatency l = of(R"(
kernel k(x: f32[1024], out y: f32[1024], out z: f32[1024]) blocks 4 warps 8 per_sm 1 gpu {
  view w: f32[1024] of y;
  grid i in 1024 step 256 { y[i] = x[i] @[i=WARP_8-LANE_32]; }
  grid j in 1024 step 256 { z[j] = w[j] @[j=WARP_8-LANE_32]; }
})",
                          target);
  EXPECT_DOUBLE_EQ(l.microseconds, 3 + 2 * 10 + l.warp_cycles / 1000);
}

/// A step of two nests on blocks of their own takes as long as one of them: a load, 500 cycles, a
/// store, each of 8 warps an SM. On two blocks they come in turns, and twice as many warps wait.
TEST(GpuLatency, StepsOfARecurrenceRunTheirNestsSideBySide) {
  Target target = small();
  target.launch_us = 3;
  target.barrier_us = 10;
  const auto steps = [](const std::string& blocks) {
    return R"(
kernel k(x: f32[3,512], out y: f32[3,512], out z: f32[3,512]) blocks )" +
           blocks + R"( warps 8 per_sm 1 gpu {
  seq t in 3 {
    view x_t: f32[512] of x at t*512;
    view out y_t: f32[512] of y at t*512;
    view out z_t: f32[512] of z at t*512;
    grid i in 512 step 256 { y_t[i] = x_t[i] @[i=WARP_8-LANE_32]; }
    grid j in 512 step 256 { z_t[j] = x_t[j] @[j=WARP_8-LANE_32]; }
  }
})";
  };
  const double nest = 8 + 500 + 8;
  const auto step_us = [&](const std::string& blocks) {
    const auto program = parse_tile_program(steps(blocks));
    EXPECT_TRUE(program.ok());
    const auto scopes = derive_scopes(*program);
    EXPECT_TRUE(scopes.ok());
    return step_latency_us(*program, *scopes, 0, target);
  };
  EXPECT_DOUBLE_EQ(step_us("4"), nest / 1000 + 10);
  EXPECT_DOUBLE_EQ(step_us("2"), 2 * nest / 1000 + 10);
  const GpuLatency all = of(steps("4"), target);
  EXPECT_DOUBLE_EQ(all.warp_cycles, 3 * nest);
  EXPECT_DOUBLE_EQ(all.microseconds, 3 + 10 + 3 * 10 + all.warp_cycles / 1000);
}

/// Two steps of 32 rows of 64 floats go ahead, 16384 bytes, at 2000 bytes a microsecond for each of
/// four SMs; a barrier hides no more than it takes.
TEST(GpuLatency, BarriersHideLoadsAhead) {
  const std::string text = R"(
kernel k(x: f32[64,64], w: f32[64,64], out y: f32[64,64]) blocks 4 warps 4 per_sm 1 gpu {
  p: 64;
  workspace h: f32[64,64];
  view h_in: f32[64,64] of h;
  grid m in 64 step 16 { h[m,p] = x[m,p]; }
  grid i in 64 step 16 {
    seq k in 64 step 32 stages 3 ahead carry acc[i,p]: f32 = 0 {
      A[i,k] = h_in[i,k] at block;
      B[k,p] = w[k,p] at block;
      t[i,p] = sum[k] A[i,k] * B[k,p];
      acc'[i,p] = acc[i,p] + t[i,p];
    }
    y[i,p] = acc[i,p];
  }
})";
  Target target = small();
  target.bandwidth = {{1, 8}};
  target.shared_bytes_per_block = target.shared_bytes_per_sm = 65536;
  const auto hidden = [&](const std::string& of) {
    const auto program = parse_tile_program(of);
    EXPECT_TRUE(program.ok()) << program.error().message;
    const auto scopes = derive_scopes(*program);
    EXPECT_TRUE(scopes.ok()) << scopes.error().message;
    return hidden_by_barriers_us(*program, *scopes, target);
  };
  target.barrier_us = 20;
  EXPECT_NEAR(hidden(text), 8.192, 1e-9);
  target.barrier_us = 1;
  EXPECT_NEAR(hidden(text), 1, 1e-9);
  std::string waits = text;
  waits.replace(waits.find(" ahead"), 6, "");
  EXPECT_EQ(hidden(waits), 0);
  EXPECT_NEAR(of(waits, target).microseconds - of(text, target).microseconds, 1, 1e-9);
  // Where the loop reads nothing that an earlier nest makes, it waits for no memory: 400 cycles.
  target.barrier_us = 20;
  std::string alone = text;
  alone.replace(alone.find("A[i,k] = h_in[i,k]"), 18, "A[i,k] = x[i,k]   ");
  alone.replace(alone.find("= acc[i,p];"), 11, "= acc[i,p] + h_in[i,p];");
  EXPECT_NEAR(hidden(alone), 2 * 32 * (16 + 64) * 4 / 2000.0 + 0.5, 1e-9);
}

}  // namespace
}  // namespace weft
