#include "library/performance_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PerformanceLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("weft-library-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Result<PerformanceLibrary> open(const std::string& name) {
    return PerformanceLibrary::open(
        path(name), [this](const std::string& message) { warnings_.push_back(message); });
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  std::filesystem::path folder_;
  std::vector<std::string> warnings_;
};

MeasuredRow row(uint64_t group, const std::string& composition, std::vector<double> samples) {
  return {{group, 1}, {2, 3}, composition, "c1", std::move(samples)};
}

std::vector<std::vector<double>> samples_in(const Result<std::vector<MeasuredRow>>& rows) {
  std::vector<std::vector<double>> out;
  for (const MeasuredRow& r : *rows) out.push_back(r.microseconds);
  return out;
}

TEST_F(PerformanceLibraryTest, KeepsWhatWasAddedToEachCandidate) {
  {
    auto library = open("a.db");
    ASSERT_TRUE(library.ok()) << library.error().message;
    ASSERT_TRUE(library->add(row(7, "leaf(a)", {3, 1.5})).ok());
    ASSERT_TRUE(library->add(row(7, "leaf(b)", {4})).ok());
    ASSERT_TRUE(library->add(row(7, "leaf(a)", {2})).ok());
  }
  const auto rows = PerformanceLibrary::read(path("a.db"));
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  EXPECT_THAT(samples_in(rows), ElementsAre(ElementsAre(3, 1.5, 2), ElementsAre(4)));
  EXPECT_EQ((*rows)[0].median(), 2);
  EXPECT_EQ((*rows)[0].composition, "leaf(a)");
  EXPECT_EQ((*rows)[0].group, (Hash128{7, 1}));
  EXPECT_NE((*rows)[0].name(), (*rows)[1].name());
}

TEST_F(PerformanceLibraryTest, MergesWithoutCountingTwice) {
  auto library = open("a.db");
  ASSERT_TRUE(library.ok());
  ASSERT_TRUE(library->add(row(7, "leaf(a)", {1, 2})).ok());
  const std::vector<MeasuredRow> other = {row(7, "leaf(a)", {2, 5, 5}), row(8, "leaf(a)", {6})};
  EXPECT_EQ(*library->merge(other), 2);
  EXPECT_EQ(*library->merge(other), 0);
  EXPECT_THAT(samples_in(library->rows()), ElementsAre(ElementsAre(1, 2, 5, 5), ElementsAre(6)));
}

TEST_F(PerformanceLibraryTest, ExportsAFileThatImports) {
  const std::vector<MeasuredRow> rows = {row(7, "leaf(a)", {1, 2})};
  write("out.db", "what was there");
  ASSERT_TRUE(export_rows(path("out.db"), rows).ok());
  EXPECT_THAT(samples_in(PerformanceLibrary::read(path("out.db"))), ElementsAre(ElementsAre(1, 2)));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(PerformanceLibraryTest, DropsWhatOtherCompilersMade) {
  auto library = open("a.db");
  MeasuredRow old = row(7, "leaf(a)", {1});
  old.compiler = "c0";
  ASSERT_TRUE(library->add(old).ok());
  ASSERT_TRUE(library->add(row(7, "leaf(a)", {2})).ok());
  EXPECT_EQ(*library->drop_others("c1"), 1);
  EXPECT_THAT(samples_in(library->rows()), ElementsAre(ElementsAre(2)));
}

TEST_F(PerformanceLibraryTest, SetsForeignFilesAside) {
  write("a.db", std::string(4096, 'x'));
  auto library = open("a.db");
  ASSERT_TRUE(library.ok()) << library.error().message;
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("a.db.aside-1")));
  EXPECT_TRUE(std::filesystem::exists(path("a.db.aside-1")));
  EXPECT_TRUE(library->add(row(7, "leaf(a)", {1})).ok());
}

TEST_F(PerformanceLibraryTest, SetsDamagedFilesAside) {
  {
    auto library = open("a.db");
    for (uint64_t g = 0; g < 200; ++g)
      ASSERT_TRUE(library->add(row(g, std::string(200, 'a'), {1})).ok());
  }
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path("a.db")));
  ASSERT_GT(size, 3 * 4096);
  {
    std::fstream file(path("a.db"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file << std::string(static_cast<size_t>(size - 4096), '\x5a');
  }
  EXPECT_THAT(PerformanceLibrary::read(path("a.db")).error().message, HasSubstr("damaged"));
  auto library = open("a.db");
  ASSERT_TRUE(library.ok()) << library.error().message;
  EXPECT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(*library->rows(), IsEmpty());
}

TEST_F(PerformanceLibraryTest, LeavesFilesThatAreOnlyReadAsTheyAre) {
  write("model.onnx", "no library");
  EXPECT_THAT(PerformanceLibrary::read(path("model.onnx")).error().message,
              HasSubstr("no performance library"));
  EXPECT_THAT(PerformanceLibrary::read(path("none.db")).error().message, HasSubstr("there is no"));
  EXPECT_FALSE(std::filesystem::exists(path("none.db")));
  EXPECT_TRUE(std::filesystem::exists(path("model.onnx")));
}

TEST_F(PerformanceLibraryTest, RefusesANewerFormat) {
  ASSERT_TRUE(open("a.db").ok());
  {
    // The version of the format, in SQLite's header.
    std::fstream file(path("a.db"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(63);
    file.put('\x09');
  }
  const auto library = open("a.db");
  ASSERT_FALSE(library.ok());
  EXPECT_THAT(library.error().message, HasSubstr("has version 9"));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(PerformanceLibraryTest, TakesTurnsWithOtherProcesses) {
  constexpr int kProcesses = 4, kRows = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      auto library = open("a.db");
      bool good = library.ok();
      for (int r = 0; good && r < kRows; ++r)
        good = library->add(row(static_cast<uint64_t>(r), "leaf(a)", {1.0 * p})).ok();
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const auto rows = PerformanceLibrary::read(path("a.db"));
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows->size(), static_cast<size_t>(kRows));
  for (const MeasuredRow& r : *rows) EXPECT_EQ(r.microseconds.size(), size_t{kProcesses});
}

TEST_F(PerformanceLibraryTest, LetsOneProcessInWhereLocksDoNotWork) {
  const auto open_locked = [&] {
    return PerformanceLibrary::open(
        path("a.db"), [](const std::string&) {}, PerformanceLibrary::Locking::kLockFile);
  };
  {
    auto library = open_locked();
    ASSERT_TRUE(library.ok()) << library.error().message;
    ASSERT_TRUE(library->add(row(7, "leaf(a)", {1})).ok());
    const auto other = open_locked();
    ASSERT_FALSE(other.ok());
    EXPECT_THAT(other.error().message, HasSubstr("another process keeps it"));
  }
  auto later = open_locked();
  ASSERT_TRUE(later.ok()) << later.error().message;
  EXPECT_THAT(samples_in(later->rows()), ElementsAre(ElementsAre(1)));
}

}  // namespace
}  // namespace weft
