#include "assemble/lifetimes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tile/analysis/derive_scopes.h"
#include "tile/text/tile_text.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// A kernel whose parameters are the tensors 0, 1, 2, …; the last `made` of them are its outputs.
PlannedKernel kernel_of(const std::string& text, TensorId made) {
  PlannedKernel kernel;
  auto program = parse_tile_program(text);
  EXPECT_TRUE(program.ok()) << program.error().message;
  kernel.schedule.program = std::move(*program);
  auto scopes = derive_scopes(kernel.schedule.program);
  EXPECT_TRUE(scopes.ok()) << scopes.error().message;
  kernel.schedule.scopes = std::move(*scopes);
  const auto count = static_cast<TensorId>(kernel.schedule.program.parameters.size());
  for (TensorId t = 0; t < count; ++t) {
    kernel.schedule.parameters.push_back(t);
    if (t >= count - made) kernel.group.outputs.push_back(t);
  }
  return kernel;
}

std::vector<std::tuple<TensorId, int32_t, int32_t>> own_of(const StepTensors& step) {
  std::vector<std::tuple<TensorId, int32_t, int32_t>> out;
  for (const StepTensors::Own& own : step.own) out.emplace_back(own.tensor, own.first, own.last);
  return out;
}

TEST(Lifetimes, OfWhatALaunchMakesForItself) {
  const StepTensors step = tensors_of(kernel_of(
      R"(kernel chain(x: f32[64], out a: f32[64], out b: f32[64], out c: f32[64], out d: f32[64]) blocks 4 warps 4 {
  r: 4;
  view a_all: f32[4,16] of a;
  view b_all: f32[4,16] of b;
  view c_all: f32[4,16] of c;
  grid i in 64 step 16 { a[i] = x[i] + 1.0; }
  grid j in 16 step 4 { b[j] = sum[r] a_all[r,j]; }
  grid k in 16 step 4 { c[k] = sum[r] b_all[r,k]; }
  grid l in 16 step 4 { d[l] = sum[r] c_all[r,l]; }
})",
      4));
  EXPECT_EQ(step.phases, 4);
  EXPECT_THAT(own_of(step), ElementsAre(std::tuple(1, 0, 1), std::tuple(2, 1, 2),
                                        std::tuple(3, 2, 3), std::tuple(4, 3, 3)));
}

TEST(Lifetimes, OfWhatARecurrenceReadsAndStores) {
  const StepTensors step = tensors_of(kernel_of(
      R"(kernel loop(x: f32[12,64], h0: f32[64], out p: f32[12,64], out y: f32[12,64], out z: f32[64]) blocks 4 warps 4 {
  s: 12;
  j: 64;
  workspace h: f32[2,64];
  view out h_first: f32[64] of h at 64;
  view y_all: f32[12,64] of y;
  grid c in 64 step 16 { p[s,c] = tanh(x[s,c]); }
  grid i in 64 step 16 { h_first[i] = h0[i]; }
  seq t in 12 {
    view p_t: f32[64] of p at t*64;
    view h_t: f32[64] of h at (t+1)%2*64;
    view out n_t: f32[64] of h at t%2*64;
    view out y_t: f32[64] of y at t*64;
    grid m in 64 step 16 {
      a[m] = sum[j] h_t[j];
      r[m] = tanh(a[m] + p_t[m]);
      n_t[m] = r[m];
      y_t[m] = r[m];
    }
  }
  grid k in 64 step 16 { z[k] = sum[s] y_all[s,k]; }
})",
      3));
  // One in front, the steps between the barriers before and in each of them, one behind.
  EXPECT_EQ(step.phases, 3);
  EXPECT_THAT(own_of(step),
              ElementsAre(std::tuple(2, 0, 1), std::tuple(3, 0, 2), std::tuple(4, 2, 2)));
}

TEST(Lifetimes, StepsFollowEachOther) {
  StepTensors first{{0}, {1, 2, 3}, 4, {{1, 0, 1}, {2, 2, 3}, {3, 1, 2}}};
  StepTensors second{{3}, {4}, 1, {}};
  const Lifetimes lives = lifetimes_of(5, std::vector{first, second});
  EXPECT_THAT(lives.steps, ElementsAre(Pair(0, 3), Pair(4, 4)));
  EXPECT_EQ(lives.end, 5);
  // What another step reads, too, is needed from the launch's beginning on.
  EXPECT_THAT(lives.tensors,
              ElementsAre(Pair(0, 3), Pair(0, 1), Pair(2, 3), Pair(0, 4), Pair(4, 4)));
}

}  // namespace
}  // namespace weft
