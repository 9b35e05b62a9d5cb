// The schedules of FusionStitching 2021 §4.2 as layouts of rows: what is reduced is handed on by a
// thread, by the lanes of a warp or by the warps of a block; all that is computed element by
// element follows. Which of them is built is the least predicted that fits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/schedule/expressed.h"
#include "tile/places.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string rows_of(int64_t rows, int64_t length) {
  const std::string r = std::to_string(rows), both = r + "," + std::to_string(length);
  return "(x: f32[" + both + "]) {\n  a = exp x : f32[" + both +
         "]\n  s = reduce a, axes={1}, combiner=sum : f32[" + r +
         "]\n  b = broadcast s, dims={0} : f32[" + both + "]\n  y = div a, b : f32[" + both +
         "]\n} -> (y)";
}

/// Who reduces a row.
std::string schedule_of(const RowsChoice& c) {
  bool lanes = false, warps = false;
  for (const int axis : c.row) {
    const auto digits = c.digits.find(axis);
    if (digits == c.digits.end()) continue;
    for (const Place::Digit& d : digits->second) {
      lanes |= d.level == PlaceLevel::kLane;
      warps |= d.level == PlaceLevel::kWarp;
    }
  }
  return c.parts > 1 ? "blocks" : warps ? "block" : lanes ? "warp" : "thread";
}

std::vector<Considered> considered(const std::string& graph, const Target& target) {
  const TensorProgram program = expressed(graph);
  auto all =
      considered_candidates(program, whole_group(program), Composition::Kind::kLeaf, target, {});
  EXPECT_TRUE(all.ok()) << all.error().message;
  return all.ok() ? std::move(*all) : std::vector<Considered>{};
}

/// Each wins for some length of rows, and nothing that is predicted to take less is left.
TEST(SubRoots, ThreadWarpAndBlockEachWinSomewhere) {
  const Target target = *find_target("a100-40gb");
  const std::tuple<int64_t, int64_t, const char*> cases[] = {
      {65536, 4, "thread"}, {8192, 1024, "warp"}, {512, 16384, "block"}};
  for (const auto& [rows, length, expected] : cases) {
    std::string chosen;
    std::set<std::string> kinds;
    double chosen_us = 0, least_us = 1e9;
    for (const Considered& c : considered(rows_of(rows, length), target)) {
      const auto* choice = c.choice ? std::get_if<RowsChoice>(&*c.choice) : nullptr;
      if (choice == nullptr) continue;
      kinds.insert(schedule_of(*choice));
      const bool fits = !c.why_not.starts_with("does not fit");
      if (c.predicted_us && fits) least_us = std::min(least_us, *c.predicted_us);
      if (!c.chosen) continue;
      chosen = schedule_of(*choice);
      chosen_us = c.predicted_us.value_or(0);
    }
    EXPECT_EQ(chosen, expected) << rows << " rows of " << length;
    EXPECT_LE(chosen_us, least_us);
    if (length > 4) EXPECT_GE(kinds.size(), 2U) << "others were considered";
  }
}

/// What is expensive is a value of a thread there: made once, in a register, for all that read it.
/// Each element is some thread's alone.
TEST(SubRoots, ElementsAreMadeOnceForAllReaders) {
  const TensorProgram program = expressed(rows_of(8192, 1024));
  const auto kernel = schedule_group(program, whole_group(program), *find_target("a100-40gb"), "k");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  int made = 0;
  size_t number = 0;
  for_each_statement(kernel->program.body, [&](const TileStatement& s) {
    const Place& place = kernel->scopes.statement_places[number++];
    bool is_exp = false;
    visit(s.value, [&](const Scalar& n) {
      is_exp |= n.kind == Scalar::Kind::kApply && n.op == ScalarOp::kExp;
    });
    if (!is_exp) return;
    ++made;
    const auto symbol = static_cast<size_t>(s.targets[0].symbol);
    EXPECT_EQ(kernel->scopes.symbols[symbol].scope, Scope::kRegister);
    EXPECT_EQ(level_extent(place, PlaceLevel::kLane), 32);
    EXPECT_EQ(level_extent(place, PlaceLevel::kWarp), kernel->program.warps);
  });
  EXPECT_EQ(made, 1);
}

/// FusionStitching 2019, Algorithm 3: a template whose registers or shared memory do not fit is
/// skipped, the best of the others is taken.
TEST(SubRoots, TemplatesThatDoNotFitAreSkipped) {
  Target target = *find_target("a100-40gb");
  const auto chosen = [&] {
    std::pair<std::string, bool> out;
    for (const Considered& c : considered(rows_of(2048, 4096), target)) {
      if (c.chosen) out.first = print(*c.choice);
      out.second |= c.why_not.starts_with("does not fit: ");
    }
    return out;
  };
  const auto [roomy, none_skipped] = chosen();
  EXPECT_FALSE(none_skipped);
  target.registers_per_thread = 40;
  const auto [tight, skipped] = chosen();
  EXPECT_TRUE(skipped);
  EXPECT_NE(roomy, tight);
  EXPECT_FALSE(tight.empty());
}

/// FusionStitching 2019 §5.3: a product of little depth is made by threads, each its own results,
/// one of great depth by blocks through shared memory.
TEST(SubRoots, DepthDecidesWhetherThreadsOrBlocksMultiply) {
  const auto made_by = [](int64_t depth) {
    const std::string k = std::to_string(depth);
    const TensorProgram program = expressed("(x: f32[96," + k + "], w: f32[" + k +
                                            ",24]) {\n  y = dot_general x, w, lhs_contract={1}, "
                                            "rhs_contract={0} : f32[96,24]\n} -> (y)");
    const auto kernel =
        schedule_group(program, whole_group(program), *find_target("a100-40gb"), "k");
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    return kernel.ok() ? std::string(choice_name(kernel->composition.choice)) : "";
  };
  EXPECT_EQ(made_by(2), "thread_tiles");
  EXPECT_EQ(made_by(4096), "tiles");
}

/// FusionStitching 2018 §4.3: of several results first the cuts that all of them have, then the
/// least sum over their operations, left where a part of it is more than the best. The results are
/// those of FusionStitching 2019, Fig. 1, of shorter rows.
TEST(SubRoots, SeveralResultsAreCutTogetherAndLeftEarly) {
  const TensorProgram program =
      expressed(R"((q: f32[256,30,2], k: f32[256,2,30], v: f32[256,30,2]) {
  a = dot_general q, k, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[256,30,30]
  m = reduce a, axes={2}, combiner=max : f32[256,30]
  mb = broadcast m, dims={0,1} : f32[256,30,30]
  d = sub a, mb : f32[256,30,30]
  e = exp d : f32[256,30,30]
  s = reduce e, axes={2}, combiner=sum : f32[256,30]
  sb = broadcast s, dims={0,1} : f32[256,30,30]
  p = div e, sb : f32[256,30,30]
  l = log s : f32[256,30]
  y = dot_general p, v, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[256,30,2]
} -> (p, l, y))");
  const auto all = considered_candidates(program, whole_group(program), Composition::Kind::kBlock,
                                         *find_target("a100-40gb"), {});
  ASSERT_TRUE(all.ok()) << all.error().message;
  int chosen = 0, cut_apart = 0, left_early = 0;
  for (const Considered& c : *all) {
    if (!c.template_name.starts_with("block(")) continue;
    chosen += c.chosen ? 1 : 0;
    cut_apart += c.why_not.find("store the same elements several times") != std::string::npos;
    left_early += c.why_not.find("its stages take") != std::string::npos;
  }
  EXPECT_EQ(chosen, 1);
  EXPECT_GT(cut_apart, 0);
  EXPECT_GT(left_early, 0);
}

}  // namespace
}  // namespace weft
