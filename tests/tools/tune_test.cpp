// `weft tune` and `weft library`: from a command to rows to a plan that names them.

#include <gmock/gmock.h>

#include "library/performance_library.h"
#include "tests/import/onnx/model_writer.h"
#include "tests/tools/command.h"

namespace weft::testing {
namespace {

using onnx::TestModel;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A product and a softmax of its rows.
std::string model_text() {
  TestModel model;
  HostTensor w(DType::kF32, {96, 128});
  for (int64_t i = 0; i < w.size(); ++i) w.set_double(i, static_cast<double>(i * 37 % 101) / 500);
  model.opset(17).input("x", DType::kF32, {64, 96}).initializer("w", w);
  model.node({"MatMul", {"x", "w"}, {"a"}, {}, "first"});
  model.node({"Softmax", {"a"}, {"y"}, {}, "second"}).output("y");
  return model.model();
}

class Tune : public ::testing::Test {
 protected:
  CommandRun weft(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--library", library_});
    return run_weft(arguments);
  }
  CommandRun tune(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"tune",     model_, "--threads", "1",
                                          "--rounds", "2",    "--most",    "3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return weft(arguments);
  }
  std::string plan() {
    const CommandRun run = weft({"dump", model_, "--stage", "plan", "--threads", "1"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  }
  std::vector<MeasuredRow> rows() const {
    auto rows = PerformanceLibrary::read(library_);
    EXPECT_TRUE(rows.ok()) << rows.error().message;
    return rows.ok() ? *rows : std::vector<MeasuredRow>();
  }

  TestFolder folder_;
  std::string model_ = folder_.write("m.onnx", model_text());
  std::string library_ = folder_.path("rows.db");
};

TEST_F(Tune, WritesRowsAndGoesOnWhereItEnded) {
  const CommandRun first = tune();
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("candidates of 2 distinct kernels measured, 0 known")));
  const std::vector<MeasuredRow> before = rows();
  EXPECT_GE(before.size(), 4U);
  const CommandRun second = tune();
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("0 candidates of 2 distinct kernels measured"));
  EXPECT_EQ(rows().size(), before.size());
  const CommandRun shown = weft({"library"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr(before[0].name()), HasSubstr(before[0].composition)));
}

TEST_F(Tune, TakesTheTimesOfRowsInThePlaceOfPredictions) {
  ASSERT_EQ(tune().exit_code, 0);
  // The last of each group's rows is said to be by far the quickest.
  std::vector<MeasuredRow> made = rows();
  std::vector<std::string> quickest;
  for (size_t r = 0; r < made.size(); ++r) {
    const bool is_last = r + 1 == made.size() || made[r + 1].group != made[r].group;
    made[r].microseconds = {is_last ? 1e-3 : 5.0};
    if (is_last) quickest.push_back(made[r].composition);
  }
  ASSERT_EQ(quickest.size(), 2U);
  library_ = folder_.path("made.db");
  ASSERT_TRUE(export_rows(library_, made).ok());
  const std::string text = plan();
  for (const std::string& composition : quickest)
    EXPECT_THAT(text, HasSubstr("by " + composition + " measured \"row "));
  // The text builds the same plan, and says by which rows.
  const std::string file = folder_.write("m.plan", text);
  const CommandRun again =
      run_weft({"dump", model_, "--stage", "plan", "--threads", "1", "--plan", file});
  EXPECT_EQ(again.out, text) << again.err;
  const CommandRun ran = weft({"run", model_, "--threads", "1"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  const CommandRun candidates = weft({"explain", model_, "--threads", "1", "--candidates", "1"});
  EXPECT_THAT(candidates.out, AllOf(HasSubstr("measured 5.00 us"), HasSubstr("  *     0.00 us")));
  // Other targets have other rows.
  const CommandRun two = weft({"dump", model_, "--stage", "plan", "--threads", "2"});
  EXPECT_THAT(two.out, Not(HasSubstr("measured")));
}

TEST_F(Tune, RowsAreInTheKeyOfTheCache) {
  ASSERT_EQ(tune().exit_code, 0);
  const std::string cache = folder_.path("cache");
  const auto timings = [&](const std::string& library) {
    std::vector<std::string> arguments = {"run",     model_, "--threads", "1",
                                          "--cache", cache,  "--timings"};
    if (!library.empty()) arguments.insert(arguments.end(), {"--library", library});
    return run_weft(arguments).err;
  };
  EXPECT_THAT(timings(""), HasSubstr("  plan\n"));
  EXPECT_THAT(timings(library_), HasSubstr("  plan\n"));
  EXPECT_THAT(timings(library_), AllOf(HasSubstr("  load\n"), Not(HasSubstr("  plan\n"))));
  std::vector<MeasuredRow> more = rows();
  more[0].microseconds.push_back(7);
  ASSERT_TRUE(export_rows(folder_.path("more.db"), more).ok());
  EXPECT_THAT(timings(folder_.path("more.db")), HasSubstr("  plan\n"));
}

TEST_F(Tune, LibrariesAreExportedMergedAndPruned) {
  const MeasuredRow row{{1, 2}, {3, 4}, "leaf(x)", "none", {1.5}};
  ASSERT_TRUE(export_rows(folder_.path("a.db"), {row}).ok());
  MeasuredRow other = row;
  other.group.low = 9;
  ASSERT_TRUE(export_rows(folder_.path("b.db"), {row, other}).ok());
  EXPECT_THAT(weft({"library", "merge", folder_.path("a.db"), folder_.path("b.db")}).out,
              HasSubstr("2 of 3 rows are new or longer"));
  EXPECT_THAT(weft({"library", "import", folder_.path("b.db")}).out, HasSubstr("0 of 2 rows"));
  EXPECT_EQ(weft({"library", "export", folder_.path("c.db")}).exit_code, 0);
  EXPECT_EQ(PerformanceLibrary::read(folder_.path("c.db"))->size(), 2U);
  EXPECT_THAT(weft({"library", "prune"}).out, HasSubstr("2 rows of another compiler dropped"));
  EXPECT_THAT(weft({"library", "show"}).out, HasSubstr(": 0 rows"));
}

TEST_F(Tune, RefusesWhatIsNone) {
  const auto expect = [&](const CommandRun& run, int code, const std::string& message) {
    EXPECT_EQ(run.exit_code, code) << run.out << run.err;
    EXPECT_THAT(run.err, HasSubstr(message));
  };
  expect(run_weft({"run", model_, "--library", folder_.path("none.db")}), 2, "none.db");
  expect(run_weft({"run", model_, "--library", model_}), 2, "no performance library");
  expect(weft({"library", "import"}), 2, "name a file");
  expect(weft({"library", "show", "x.db"}), 2, "takes no file");
  expect(weft({"tune", model_, "--target", "h200"}), 4, "");
  expect(weft({"tune", model_, "--target", "interp"}), 3, "interp");
  expect(weft({"tune", folder_.path("m.weft")}), 2, "needs the model");
}

}  // namespace
}  // namespace weft::testing
