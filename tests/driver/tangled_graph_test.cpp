// Random graphs as a planner does not like them, for any planner and device; scripts/fuzz-plans
// runs more of them.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "driver/graph_file.h"
#include "tests/driver/tangled_case.h"

namespace weft::testing {
namespace {

/// What scripts/fuzz-plans asks for by the environment; the suite's share without it.
struct Wanted {
  uint64_t first = 0, last = 2000;
  std::string target;  ///< for this device alone; empty: the seed's
  std::string folder;  ///< where failures go, and the seed that is being tried; empty: nowhere
  bool reduces = false;
  bool writes = false;  ///< the graphs for GPUs into the folder, and nothing else
};
Wanted wanted() {
  Wanted w;
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (!text("WEFT_FUZZ_FIRST").empty()) w.first = std::stoull(text("WEFT_FUZZ_FIRST"));
  if (!text("WEFT_FUZZ_LAST").empty()) w.last = std::stoull(text("WEFT_FUZZ_LAST"));
  w.target = text("WEFT_FUZZ_TARGET");
  w.folder = text("WEFT_FUZZ_FOLDER");
  w.writes = !text("WEFT_FUZZ_GRAPHS").empty();
  w.reduces = !text("WEFT_FUZZ_REDUCE").empty();
  return w;
}

/// Of those that are run, whose whole programs run as well: CUDA text takes long to compile.
TangledRun run_of(const TangledCase& c, bool much) {
  const uint64_t every = c.target.is_gpu() ? (much ? 16 : 160) : (much ? 4 : 40);
  return c.seed % every == 0 ? TangledRun::kWhole : TangledRun::kExecutor;
}

void keep(const Wanted& w, const TangledCase& c, const std::string& text) {
  std::ofstream(w.folder + "/" + std::to_string(c.seed) + ".txt") << describe(c) << "\n" << text;
  const Status written =
      write_graph_file(w.folder + "/" + std::to_string(c.seed) + ".graph", c.graph, describe(c));
  EXPECT_TRUE(written.ok()) << written.error().message;
}

/// A graph that is small enough to be compared, and a line as bench/gpu_models.py takes it.
void write_case(const Wanted& w, const TangledCase& c) {
  if (!c.target.is_gpu() || !c.runs) return;
  const std::string file = w.folder + "/" + std::to_string(c.seed) + ".graph";
  const Status written = write_graph_file(file, c.graph, describe(c));
  EXPECT_TRUE(written.ok()) << written.error().message;
  printf("CASE %s@%s%s%s\n", file.c_str(), c.planner.c_str(), c.compositions.empty() ? "" : ":",
         c.compositions.c_str());
}

void plan_schedule_and_run(const Wanted& w) {
  for (uint64_t seed = w.first; seed < w.last; ++seed) {
    if (!w.folder.empty()) {
      std::ofstream(w.folder + "/at-" + std::to_string(w.first)) << seed << "\n";
    }
    TangledCase c = tangled_case(seed);
    if (!w.target.empty()) c.target = *find_target(w.target);
    if (w.writes) {
      write_case(w, c);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const TangledRun how = run_of(c, !w.folder.empty());
    std::string text = fault(c, how);
    if (std::getenv("WEFT_FUZZ_TIMES") != nullptr) {
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      printf("%8.3f s %s\n", spent.count(), describe(c).c_str());
    }
    if (text.empty()) continue;
    if (w.reduces) {
      c = reduced(c, how);
      text = fault(c, how);
    }
    if (!w.folder.empty()) keep(w, c, text);
    ADD_FAILURE() << describe(c) << "\n" << text;
    if (w.folder.empty()) return;
  }
}

TEST(TangledGraphs, PlanScheduleAndRun) { plan_schedule_and_run(wanted()); }

/// Windows, groups of channels of any width, filtered where a CPU can.
TEST(TangledGraphs, OfConvolutions) {
  Wanted w;
  w.first = kConvolutionsFrom;
  w.last = w.first + 400;
  plan_schedule_and_run(w);
}

void expect_no_fault(uint64_t seed) {
  const TangledCase c = tangled_case(seed);
  EXPECT_EQ(fault(c), "") << describe(c);
}

/// A device of one SM holds no block of a cluster.
TEST(TangledGraphs, DevicesTooSmallForAClusterDoWithout) {
  for (const uint64_t seed : {41306, 42255}) expect_no_fault(seed);
}

/// Sums that are equal for all results of a whole iteration, and differ in its tail by what is
/// masked: the warps exchange more there.
TEST(TangledGraphs, TailsMayExchangeMoreThanWholeIterations) { expect_no_fault(10703); }

/// What the blocks of a cluster load together stays for one nest: such a kernel joins no launch.
TEST(TangledGraphs, WhatClustersLoadJoinsNoLaunch) {
  TangledCase c = tangled_case(2100740);
  c.target = *find_target("h100-sxm");
  EXPECT_EQ(fault(c), "") << describe(c);
}

/// A program that CBC's preprocessing does not survive.
TEST(TangledGraphs, IntegerProgramsAreNotPreprocessed) { expect_no_fault(30126); }

/// What pads a tile is asked by each of its copies, which only some threads make.
TEST(TangledGraphs, CopiesOfSomeThreadsArePadded) { expect_no_fault(39101); }

/// A tensor that was declared with other axes lies in memory by a layout of those that it has.
TEST(TangledGraphs, LayoutsAreOfTheAxesThatThereAre) { expect_no_fault(8620); }

}  // namespace
}  // namespace weft::testing
