// FusionStitching's schedules (2018, section 4): a split dimension, how many pieces it is cut into
// (sword), and Row or Column. They are partitions, and Table 1, which says what an operation passes
// on to its operands, follows from demand boxes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "schedule/stages/demand_boxes.h"
#include "tests/schedule/expressed.h"

namespace weft {
namespace {

struct Schedule {
  bool row = true;
  int split_dim = 0;
  int64_t sword = 1;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

std::string print(const std::optional<Schedule>& s) {
  if (!s) return "none";
  return (s->row ? "Row " : "Column ") + std::to_string(s->split_dim) + " in " +
         std::to_string(s->sword);
}

/// Of a tensor of these extents; sword divides that of the split dimension.
std::vector<Schedule> schedules_of(const Shape& extents) {
  std::vector<Schedule> out;
  for (int d = 0; d < static_cast<int>(extents.size()); ++d) {
    for (int64_t sword = 1; sword <= extents[static_cast<size_t>(d)]; ++sword) {
      if (extents[static_cast<size_t>(d)] % sword != 0) continue;
      out.push_back({true, d, sword});
      out.push_back({false, d, sword});
    }
  }
  return out;
}

/// Row: blocks have single elements of the dimensions left of the split one, a piece of that one,
/// and all of those on its right. Column is its mirror image.
BlockPartition partition_by(const Schedule& s, int root, const Shape& extents) {
  BlockPartition out;
  out.roots = {root};
  for (int d = 0; d < static_cast<int>(extents.size()); ++d) {
    const int64_t extent = extents[static_cast<size_t>(d)];
    if (s.row ? d < s.split_dim : d > s.split_dim) out.loops.push_back({1, false, {d}});
    if (d == s.split_dim && s.sword > 1) out.loops.push_back({extent / s.sword, false, {d}});
  }
  return out;
}

/// Which schedule's blocks have such boxes; of several the one of the leftmost split.
std::optional<Schedule> schedule_with(const std::vector<BoxAxis>& box) {
  Shape extents;
  for (const BoxAxis& axis : box) extents.push_back(axis.full);
  for (const Schedule& s : schedules_of(extents)) {
    bool same = true;
    for (int d = 0; d < static_cast<int>(box.size()); ++d) {
      const int64_t full = extents[static_cast<size_t>(d)];
      const bool single = s.row ? d < s.split_dim : d > s.split_dim;
      const int64_t extent = d == s.split_dim ? full / s.sword : single ? 1 : full;
      same &= box[static_cast<size_t>(d)].extent == extent;
    }
    if (same) return s;
  }
  return std::nullopt;
}

/// What the member at a position owes, where its reader behind it is cut by the schedule.
struct Owed {
  std::optional<Schedule> schedule;
  double times = 0;
};
class Rules {
 public:
  explicit Rules(const std::string& graph) : program_(expressed(graph)) {
    root_ = static_cast<int>(program_.exprs.size()) - 1;
  }
  const Shape& extents() const { return program_.exprs[static_cast<size_t>(root_)].extents; }
  Owed owed(const Schedule& s, int member = 0) const {
    const auto demand =
        demand_boxes(program_, whole_group(program_), partition_by(s, root_, extents()));
    EXPECT_TRUE(demand.ok()) << print(s) << ": " << (demand.ok() ? "" : demand.error().message);
    if (!demand.ok()) return {};
    const Demand& own = demand->members[static_cast<size_t>(member)];
    return {schedule_with(own.box), own.times};
  }

 private:
  TensorProgram program_;
  int root_ = 0;
};

TEST(ScheduleRules, ElementwisePassesRowAndColumn) {
  const Rules rules(R"((x: f32[4,6,8]) {
  e = exp x : f32[4,6,8]
  y = add e, e : f32[4,6,8]
} -> (y))");
  int cut = 0;
  for (const Schedule& s : schedules_of(rules.extents())) {
    const Owed owed = rules.owed(s);
    EXPECT_EQ(owed.times, 1) << print(s);
    ASSERT_TRUE(owed.schedule) << print(s);
    // Row 1 in 1 has the blocks of Row 0 in 4.
    EXPECT_EQ(partition_by(*owed.schedule, 0, rules.extents()).loops.size(),
              partition_by(s, 0, rules.extents()).loops.size())
        << print(s) << " passes " << print(owed.schedule);
    cut += owed.schedule == s ? 1 : 0;
  }
  EXPECT_GT(cut, 12);
}

/// Axes 1 and 2 change places. What cuts neither of them, or is cut by neither, is a schedule of
/// the operand, too. Blocks of the others have pieces across it, each element once all the same.
TEST(ScheduleRules, TransposePassesRowBeforeAndColumnBehindWhatItMoves) {
  const Rules rules(R"((x: f32[4,6,8,5]) {
  e = exp x : f32[4,6,8,5]
  t = transpose e, permutation={0,2,1,3} : f32[4,8,6,5]
  y = neg t : f32[4,8,6,5]
} -> (y))");
  constexpr int kMin = 1, kMax = 2;
  for (const Schedule& s : schedules_of(rules.extents())) {
    const Owed owed = rules.owed(s);
    EXPECT_EQ(owed.times, 1) << print(s);
    // At the border all of the moved axes is on one side.
    const bool passes =
        s.row ? s.split_dim < kMin || (s.split_dim == kMin && s.sword == 1) || s.split_dim > kMax
              : s.split_dim > kMax || (s.split_dim == kMax && s.sword == 1) || s.split_dim < kMin;
    const bool singles = s.sword == rules.extents()[static_cast<size_t>(s.split_dim)];
    if (passes) EXPECT_TRUE(owed.schedule) << print(s);
    if (!passes && !singles) EXPECT_FALSE(owed.schedule) << print(s) << " " << print(owed.schedule);
  }
}

/// All that is reduced lies in one block. Rows left of it and columns right of it stay schedules.
TEST(ScheduleRules, ReducePassesRowBeforeAndColumnBehindWhatItReduces) {
  const Rules rules(R"((x: f32[4,6,8]) {
  e = exp x : f32[4,6,8]
  y = reduce e, axes={1}, combiner=sum : f32[4,8]
} -> (y))");
  const std::map<int, int> of_input = {{0, 0}, {1, 2}};
  constexpr int kReduced = 1;
  for (const Schedule& s : schedules_of(rules.extents())) {
    const Owed owed = rules.owed(s);
    EXPECT_EQ(owed.times, 1) << print(s);
    const int split = of_input.at(s.split_dim);
    const bool whole = s.sword == 1;  // nothing of the split dimension is cut
    const bool passes = whole || (s.row ? split <= kReduced : split >= kReduced);
    const bool singles = s.sword == rules.extents()[static_cast<size_t>(s.split_dim)];
    if (passes) EXPECT_TRUE(owed.schedule) << print(s);
    if (!passes && !singles) EXPECT_FALSE(owed.schedule) << print(s) << " " << print(owed.schedule);
  }
}

/// Only rows of the batch give no block what another one makes, too.
TEST(ScheduleRules, BatchDotPassesRowsOfItsBatchAlone) {
  const Rules rules(R"((x: f32[4,6,8], w: f32[4,8,10]) {
  a = exp x : f32[4,6,8]
  b = exp w : f32[4,8,10]
  y = dot_general a, b, lhs_contract={2}, rhs_contract={1}, lhs_batch={0}, rhs_batch={0} : f32[4,6,10]
} -> (y))");
  constexpr int kBatch = 1;
  for (const Schedule& s : schedules_of(rules.extents())) {
    const Owed a = rules.owed(s, 0), b = rules.owed(s, 1);
    // Row 1 in 1 cuts the batch alone, Column 2 in 1 nothing.
    const bool uncut = s == Schedule{true, kBatch, 1} || s == Schedule{false, 2, 1};
    const bool passes = uncut || (s.row && s.split_dim < kBatch);
    EXPECT_EQ(a.times == 1 && b.times == 1, passes) << print(s) << " " << a.times << " " << b.times;
  }
}

/// Rows of [4,6,8] are rows of [4,48] of another split and sword; pieces of columns are none.
TEST(ScheduleRules, ReshapeTransformsSplitAndSword) {
  const Rules rules(R"((x: f32[4,48]) {
  e = exp x : f32[4,48]
  r = reshape e : f32[4,6,8]
  y = neg r : f32[4,6,8]
} -> (y))");
  const auto passes = [&](const Schedule& s, const Schedule& to) {
    const Owed owed = rules.owed(s);
    EXPECT_EQ(owed.times, 1) << print(s);
    EXPECT_EQ(owed.schedule, to) << print(s) << " passes " << print(owed.schedule);
  };
  passes({true, 0, 2}, {true, 0, 2});
  passes({true, 1, 3}, {true, 1, 3});
  passes({true, 2, 2}, {true, 1, 12});
  EXPECT_GT(rules.owed({false, 2, 2}).times, 1);
  EXPECT_GT(rules.owed({false, 1, 2}).times, 1);
}

/// The broadcast axis is none of the operand's: what is cut along it makes the operand again.
TEST(ScheduleRules, BroadcastTransformsSplitAndSword) {
  const Rules rules(R"((x: f32[4,8]) {
  e = exp x : f32[4,8]
  b = broadcast e, dims={0,2} : f32[4,6,8]
  y = neg b : f32[4,6,8]
} -> (y))");
  EXPECT_EQ(rules.owed({true, 0, 2}).schedule, (Schedule{true, 0, 2}));
  EXPECT_EQ(rules.owed({true, 0, 2}).times, 1);
  EXPECT_EQ(rules.owed({false, 2, 4}).schedule, (Schedule{false, 1, 4}));
  EXPECT_EQ(rules.owed({false, 2, 4}).times, 1);
  EXPECT_EQ(rules.owed({true, 1, 3}).times, 3);
  EXPECT_EQ(rules.owed({true, 2, 4}).schedule, (Schedule{true, 1, 4}));
  EXPECT_EQ(rules.owed({true, 2, 4}).times, 6);
}

/// One block, Row 0 in 1: all of everything, made once (section 4.3).
TEST(ScheduleRules, OneBlockIsAlwaysValid) {
  for (const char* const graph : {
           R"((x: f32[4,6]) {
  e = exp x : f32[4,6]
  t = transpose e, permutation={1,0} : f32[6,4]
  y = neg t : f32[6,4]
} -> (y))",
           R"((x: f32[4,6], w: f32[6,6]) {
  e = exp x : f32[4,6]
  y = dot_general e, w, lhs_contract={1}, rhs_contract={0}, lhs_batch={}, rhs_batch={} : f32[4,6]
} -> (y))",
           R"((x: f32[4,6]) {
  e = exp x : f32[4,6]
  r = reshape e : f32[8,3]
  y = neg r : f32[8,3]
} -> (y))"}) {
    const Owed owed = Rules(graph).owed({true, 0, 1});
    EXPECT_EQ(owed.times, 1) << graph;
    EXPECT_EQ(owed.schedule, (Schedule{true, 0, 1})) << graph;
  }
}

}  // namespace
}  // namespace weft
